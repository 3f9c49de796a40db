"""Arguments and options that several commands have."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from pipecatapp.cli.exit_codes import INVALID, CommandFailed

Json = dict[str, Any]

ANY_VERSION = {"if-match": "*"}
"""The header of a change to whatever text is there now."""

MOST_LISTED = 500
"""Results that one request to the API lists at most."""

StateOption = Annotated[
    Path | None, typer.Option("--state-dir", help="State directory of the instance.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LimitOption = Annotated[
    int, typer.Option(min=1, max=MOST_LISTED, help="Maximum number of results.")
]
WorkflowArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A workflow's id, or a file that ends in .yaml.")
]


LayersOption = Annotated[
    list[str],
    typer.Option(
        "--layer", metavar="NAME|FILE", help="A layer. The last one has priority. Repeatable."
    ),
]
SelectOption = Annotated[
    list[str], typer.Option("--select", metavar="AXIS=CHOICE", help="Select a variant. Repeatable.")
]


AllowOption = Annotated[
    list[str],
    typer.Option(
        "--allow",
        metavar="EFFECT",
        help="Grant only these effects, such as read or llm. Repeatable.",
    ),
]


DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show the changes without making them.")
]
OldDryRunOption = Annotated[bool, typer.Option("--look", hidden=True)]
"""The name of `--dry-run` until 0.1; it goes with the next release."""


def say_rest(shown: int, total: int, noun: str, narrow: str) -> None:
    """Print to standard error that a list shows only a part, and how to see the rest; nothing if it
    shows all. `narrow` names the options that find fewer.
    """
    if shown < total:
        more = "Raise --limit or narrow" if shown < MOST_LISTED else "Narrow"
        text = f"{shown:,} of {total:,} {noun} are shown. {more} the list with {narrow}."
        typer.echo(text, err=True)


@dataclass(frozen=True)
class Named:
    """A workflow as a command line names it."""

    name: str
    layers: Sequence[str] = ()
    select: Sequence[str] = ()
    allow: Sequence[str] = ()

    def document(self) -> Json:
        """Return the document for the API; raises `CommandFailed`."""
        found = document_of(self.name, self.layers, self.select)
        return found | {"allow": effects(self.allow)} if self.allow else found


def effects(names: Sequence[str]) -> list[str]:
    """Return the effects of `--allow` options; raises `CommandFailed` for an unknown one."""
    effects = import_module("pipecatapp.application.engine").EFFECTS
    if unknown := sorted({*names} - effects):
        known = ", ".join(sorted(effects))
        raise CommandFailed(f"There is no effect {unknown[0]!r}. Known: {known}", code=INVALID)
    return list(names)


def document_of(name: str, layers: Sequence[str] = (), select: Sequence[str] = ()) -> Json:
    """A name is a workflow of the instance; what ends in .yaml or .yml is a file."""
    chosen = dict(word.partition("=")[::2] for word in select)
    if not all("=" in word for word in select):
        raise CommandFailed("--select is of the form axis=choice.", code=INVALID)
    laid = [text_of(layer) + "\n" if is_file(layer) else layer for layer in layers]
    named = {"document": text_of(name), "file": name} if is_file(name) else {"workflow": name}
    return {**named, "layers": laid, "select": chosen}


def is_file(name: str) -> bool:
    """Return whether a name is that of a file: it ends in .yaml or .yml."""
    return name.endswith((".yaml", ".yml"))


def text_of(name: str) -> str:
    """The text of a file."""
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandFailed(f"{name} cannot be read: {reason}.", code=INVALID) from error
