"""`hearth import`: files of older programs, as workflows."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import StateOption, text_of
from pipecatapp.client import connect


def import_file(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to convert.")],
    name: Annotated[str, typer.Option(help="Id of the workflow. Default: the file's name.")] = "",
    models: Annotated[
        list[str],
        typer.Option(
            "--model",
            metavar="OLD=ROLE",
            help="The role that replaces a model of the file. Repeatable.",
        ),
    ] = [],  # noqa: B006
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the workflow to this file.")
    ] = None,
    state_dir: StateOption = None,
) -> None:
    """Convert an OrchestrAI file (`pipeline:`) or a file of connected nodes (`nodes:`) to a
    workflow.

    Parts that cannot be converted are reported with file and line. Exit code 2: the result is
    not a valid workflow.
    """
    write = typer.echo if output is None else partial(_write, output)
    finish(_import(file, name, models, write, state_dir))


async def _import(
    file: Path, name: str, models: list[str], write: Callable[[str], None], state_dir: Path | None
) -> int:
    if not all("=" in word for word in models):
        raise CommandFailed("--model is of the form old=role.", code=INVALID)
    named = dict(word.rpartition("=")[::2] for word in models)
    text = text_of(str(file))
    async with connect(state_dir) as client:
        body = {"text": text, "file": str(file), "name": name, "models": named}
        imported = await client.request("POST", "/api/import", body)
    for one in imported["look_at"]:
        typer.echo(one["said"], err=True)
    write(imported["document"].rstrip("\n"))
    if imported["plan"]["diagnostics"]:
        typer.echo(imported["plan"]["text"], err=True)
        return INVALID
    return DONE


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}.") from error
