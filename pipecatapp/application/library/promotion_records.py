"""Files of promoted prompts: `evolution/promoted/ID.json` of a state directory.

Such a file is a layer over the stored prompt of its id. Removing the file removes the layer.
"""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipecatapp.workflow import Diagnostic, InvalidDocument

ID = r"^[a-z][a-z0-9-]*$"


class PromptText(BaseModel):
    """Tags and text of a prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tags: list[str]
    text: str


class Proposal(BaseModel):
    """A prompt that a campaign proposes, with the evidence of its gate.

    `base` is the prompt that it was compared with: a proposal for another one is worth nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: str = Field(pattern=ID)
    candidate: str = Field(pattern=ID)
    prompt: str = Field(pattern=ID)
    document: str
    base: PromptText
    evidence: dict[str, Any]


class Promotion(Proposal):
    """A promoted prompt; `by` names the person that confirmed it, `at` is ISO 8601 in UTC.

    `below` is the promoted prompt that this one replaced, if any.
    """

    by: str = Field(min_length=1)
    at: str
    below: "Promotion | None" = None


_Record = TypeVar("_Record", bound=BaseModel)


def promoted_folder(state: Path) -> Path:
    """The folder of the promoted prompts of a state directory."""
    return state / "evolution" / "promoted"


def read_promotion(file: Path) -> Promotion:
    """Read a promoted prompt. Raises `InvalidDocument` and `OSError`."""
    return _read(file, Promotion)


def read_proposal(file: Path) -> Proposal:
    """Read the proposal of a campaign. Raises `InvalidDocument` and `OSError`."""
    return _read(file, Proposal)


def _read(file: Path, model: type[_Record]) -> _Record:
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise InvalidDocument([Diagnostic(str(file), 1, 1, reason)]) from error
