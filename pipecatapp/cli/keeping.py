"""`hearth runs prune`, `export`, `import`: how long runs are kept, and where else."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.desk import open_desk
from pipecatapp.cli.failure import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import StateOption


def prune_runs(
    days: Annotated[float, typer.Option(min=0, help="Runs that ended longer ago than this.")],
    keep: Annotated[int, typer.Option(min=0, help="The newest runs stay in any case.")] = 100,
    state_dir: StateOption = None,
    *,
    look: Annotated[bool, typer.Option("--look", help="Only say which.")] = False,
) -> None:
    """Remove old runs with their steps and events; notes and documents stay."""
    finish(_prune(days, keep, state_dir, look=look))


def export_run(
    run: Annotated[str, typer.Argument(metavar="ID", help="A run that `hearth runs` lists.")],
    state_dir: StateOption = None,
) -> None:
    """Print a run as JSON lines: itself, its steps, its events."""
    finish(_export(run, state_dir))


def import_runs(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Exported runs; - is standard input.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Take in exported runs, all or none."""
    finish(_import(partial(_read, file), state_dir))


async def _prune(days: float, keep: int, state_dir: Path | None, *, look: bool) -> int:
    async with open_desk(state_dir) as desk:
        runs = await desk.prune(days, keep=keep, look=look)
    for run in runs:
        typer.echo(run)
    typer.echo(f"{len(runs)} runs {'would be' if look else 'are'} removed.", err=True)
    return DONE


async def _export(run: str, state_dir: Path | None) -> int:
    async with open_desk(state_dir) as desk:
        typer.echo(await desk.export(run), nl=False)
    return DONE


async def _import(read: Callable[[], str], state_dir: Path | None) -> int:
    lines = read()
    async with open_desk(state_dir) as desk:
        for run in await desk.take_in(lines):
            typer.echo(run)
    return DONE


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} cannot be read: {error}.", code=INVALID) from error
