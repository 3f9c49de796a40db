"""Triggers as people write them: files of YAML in the folder `triggers` of the state directory."""

import re
from collections.abc import Mapping
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML

from hearth.files import write_atomic
from pipecatapp.application.triggers.signatures import Signature
from pipecatapp.workflow import InvalidDocument, complaints
from pipecatapp.workflow.expressions import ExpressionError, expression, expressions
from pipecatapp.workflow.syntax import read_yaml

ID: Final = r"^[a-z][a-z0-9-]*$"
NAMES: Final[Mapping[str, frozenset[str]]] = {
    "webhook": frozenset(("body", "headers", "query")),
    "folder": frozenset(("file",)),
}
"""The names that expressions of the inputs may read, by kind of trigger."""
REFERENCE: Final = re.compile(r"(kept:[a-z][a-z0-9_-]*|env:[A-Za-z_]\w*|file:/.+)")


class UnknownTrigger(LookupError):
    """The trigger does not exist: see the list of triggers."""


class InvalidTrigger(ValueError):
    """The trigger cannot be stored; the message names the wrong part."""


class Webhook(BaseModel):
    """A request to `/hooks/<id>`, which its sender signs."""

    model_config = ConfigDict(extra="forbid")

    signature: Signature = Field("standard", description="How the sender shows that it may.")
    secret: str = Field(
        "",
        max_length=1000,
        description="Where the secret is: `kept:NAME`, `env:NAME` or `file:/path`. By default "
        "one is made and stored.",
    )

    @field_validator("secret")
    @classmethod
    def _reference(cls, secret: str) -> str:
        if secret and not REFERENCE.fullmatch(secret):
            raise ValueError("use kept:name, env:NAME or file:/path, not the secret itself")
        return secret


class Folder(BaseModel):
    """A file that appears or changes in a folder; the run is given a copy of the file."""

    model_config = ConfigDict(extra="forbid")

    path: Path = Field(description="The folder, as an absolute path on the machine of the agent.")
    pattern: str = Field("*", min_length=1, max_length=200, description="Names, such as `*.pdf`.")
    since: datetime | None = Field(
        None, description="Only files that have come since then; null for all that are there."
    )

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("use an absolute path")
        return path


class TriggerSettings(BaseModel):
    """A trigger as people write it: one cause, and the workflow that it starts."""

    model_config = ConfigDict(extra="forbid")

    workflow: str = Field(min_length=1, max_length=200)
    webhook: Webhook | None = None
    folder: Folder | None = None
    inputs: dict[str, Any] = Field(
        default={}, description="Inputs of the run, with expressions such as `{{ body.person }}`."
    )
    per_minute: int = Field(30, ge=1, le=1000, description="Runs in a minute, at most.")
    paused: bool = False

    @model_validator(mode="after")
    def _one_cause(self) -> Self:
        if (self.webhook is None) == (self.folder is None):
            raise ValueError("name either `webhook` or `folder`")
        self._check_expressions()
        return self

    @property
    def kind(self) -> Literal["webhook", "folder"]:
        return "webhook" if self.webhook is not None else "folder"

    def _check_expressions(self) -> None:
        names = NAMES[self.kind]
        for at, text in expressions(self.inputs):
            where = ".".join(map(str, ("inputs", *at)))
            try:
                reads = expression(text).reads
            except ExpressionError as error:
                raise ValueError(f"{where}: {error}") from error
            if unknown := {str(read.path[0]) for read in reads} - names:
                known = ", ".join(sorted(names))
                raise ValueError(
                    f"{where}: {sorted(unknown)[0]!r} is not known here. Known: {known}"
                )


def read_trigger(file: Path) -> TriggerSettings:
    """Read a file; raises `InvalidTrigger` and `OSError`."""
    try:
        value, _ = read_yaml(file.read_text(encoding="utf-8"), file=str(file))
        return TriggerSettings.model_validate(value)
    except (InvalidDocument, UnicodeDecodeError) as error:
        raise InvalidTrigger(f"{file} cannot be read: {error}") from error
    except ValidationError as error:
        reasons = complaints(error).replace("Value error, ", "")
        raise InvalidTrigger(f"{file} is not valid: {reasons}") from error


def write_trigger(file: Path, settings: TriggerSettings) -> None:
    """Store a trigger; other accounts of the machine cannot read it."""
    yaml, text = YAML(), StringIO()
    yaml.dump(settings.model_dump(mode="json", exclude_none=True, exclude_defaults=True), text)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(file, text.getvalue(), mode=0o600)
