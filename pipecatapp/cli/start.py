"""What a command starts."""

from dataclasses import dataclass, field
from typing import Any

from pipecatapp.runs import Document


@dataclass(frozen=True)
class Start:
    """A run to be: its document, its inputs, and what answers its questions.

    Not interactive: nobody is there to be asked, so a question without an answer fails.
    """

    document: Document
    inputs: dict[str, Any]
    conversation: str | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    interactive: bool = False

    def body(self) -> dict[str, Any]:
        """As the API takes it."""
        body = self.document.model_dump(exclude_none=True) | {
            "inputs": self.inputs,
            "answers": self.answers,
            "interactive": self.interactive,
        }
        return body | ({"conversation": self.conversation} if self.conversation else {})
