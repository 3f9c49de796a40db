"""Documents: YAML that people and models write."""

from dataclasses import dataclass
from typing import Any

from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument


@dataclass(frozen=True)
class Prompt:
    """A text that comes in as system text wherever all its tags are asked for."""

    id: str
    tags: frozenset[str]
    text: str


class Workflow:
    id: str
    version: int
    about: str
    tags: tuple[str, ...]

    def input_schema(self) -> dict[str, Any]: ...

    def output_schema(self) -> dict[str, Any]: ...


def load_document(text: str, *, file: str) -> Workflow: ...
