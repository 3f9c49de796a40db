"""Arguments and options that several commands have."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pipecatapp.cli.failure import INVALID, CommandFailed
from pipecatapp.runs import Document
from pipecatapp.workflow.tool import EFFECTS

StateOption = Annotated[
    Path | None, typer.Option("--state-dir", help="State directory of the instance.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WorkflowArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A workflow's id, or a file that ends in .yaml.")
]


LayersOption = Annotated[
    list[str],
    typer.Option("--layer", metavar="NAME|FILE", help="A layer; the last one is the strongest."),
]
SelectOption = Annotated[
    list[str], typer.Option("--select", metavar="AXIS=CHOICE", help="The choice of a variant.")
]


AllowOption = Annotated[
    list[str],
    typer.Option("--allow", metavar="EFFECT", help="Grant only these effects, such as read, llm."),
]


@dataclass(frozen=True)
class Named:
    """A workflow as a command line names it."""

    name: str
    layers: Sequence[str] = ()
    select: Sequence[str] = ()
    allow: Sequence[str] = ()

    def document(self) -> Document:
        """What it names; raises `CommandFailed`."""
        if unknown := sorted({*self.allow} - EFFECTS):
            known = ", ".join(sorted(EFFECTS))
            raise CommandFailed(f"There is no effect {unknown[0]!r}. Known: {known}", code=INVALID)
        found = document_of(self.name, self.layers, self.select)
        granted: Any = list(self.allow)
        return found.model_copy(update={"allow": granted}) if granted else found


def document_of(name: str, layers: Sequence[str] = (), select: Sequence[str] = ()) -> Document:
    """A name is a workflow of the instance; what ends in .yaml or .yml is a file."""
    chosen = dict(word.partition("=")[::2] for word in select)
    if not all("=" in word for word in select):
        raise CommandFailed("--select is of the form axis=choice.", code=INVALID)
    laid = [text_of(layer) + "\n" if is_file(layer) else layer for layer in layers]
    if not is_file(name):
        return Document(workflow=name, layers=laid, select=chosen)
    return Document(document=text_of(name), file=name, layers=laid, select=chosen)


def is_file(name: str) -> bool:
    """What ends in .yaml or .yml is a file."""
    return name.endswith((".yaml", ".yml"))


def text_of(name: str) -> str:
    """The text of a file."""
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandFailed(f"{name} cannot be read: {reason}.", code=INVALID) from error
