"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.failure import INVALID, CommandFailed
from pipecatapp.runs import Document

StateOption = Annotated[
    Path | None, typer.Option("--state-dir", help="State directory of the instance.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WorkflowArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A workflow's id, or a file that ends in .yaml.")
]


def document_of(name: str) -> Document:
    """A name is a workflow of the instance; what ends in .yaml or .yml is a file."""
    if not name.endswith((".yaml", ".yml")):
        return Document(workflow=name)
    try:
        return Document(document=Path(name).read_text(encoding="utf-8"), file=name)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandFailed(f"{name} cannot be read: {reason}.", code=INVALID) from error
