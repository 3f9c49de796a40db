"""`hearth validate`: every mistake of any number of documents, and nothing is run."""

from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.documents.output import json_out
from pipecatapp.cli.exit_codes import DONE, INVALID, finish
from pipecatapp.cli.options import (
    JsonOption,
    LayersOption,
    SelectOption,
    StateOption,
    document_of,
    is_file,
    text_of,
)
from pipecatapp.client import connect


def validate_documents(
    workflows: Annotated[
        list[str], typer.Argument(metavar="NAME|FILE…", help="Workflows: ids or files.")
    ],
    layers: LayersOption = [],  # noqa: B006
    select: SelectOption = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Check workflows as `plan` and `run` do. Exit code 2: a workflow is invalid. Files that are
    checked together may use and extend each other.

    Each error is a line `file:line:column: reason. hint`, followed by the text at that position.
    """
    finish(_validate(workflows, (layers, select), state_dir, as_json=as_json))


async def _validate(
    names: list[str],
    laid: tuple[list[str], list[str]],
    state_dir: Path | None,
    *,
    as_json: bool,
) -> int:
    found = []
    async with connect(state_dir) as client:
        texts = [text_of(name) for name in names if is_file(name)]
        for name in names:
            document = document_of(name, *laid)
            planned = await client.request("POST", "/api/plan", document | {"beside": texts})
            told = {key: planned[key] for key in ("diagnostics", "warnings")}
            found.append({"name": name, **told})
            for one in [] if as_json else planned["warnings"]:
                typer.echo(f"warning: {one['said']}", err=True)
            if planned["diagnostics"] and not as_json:
                typer.echo(planned["text"], err=True)
    wrong = sum(len(one["diagnostics"]) for one in found)
    if as_json:
        json_out({"documents": found})
    else:
        typer.echo(f"{len(names)} checked, {wrong} mistakes." if wrong else "All is well.")
    return INVALID if wrong else DONE
