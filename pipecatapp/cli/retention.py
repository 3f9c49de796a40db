"""`hearth runs prune`, `delete`, `export`, `import`: delete runs, and move them between
instances."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import DryRunOption, OldDryRunOption, StateOption
from pipecatapp.client import connect


def prune_runs(
    days: Annotated[
        float, typer.Option(min=0, help="Delete runs that ended more than this number of days ago.")
    ],
    keep: Annotated[
        int, typer.Option(min=0, help="Number of newest runs to keep in any case.")
    ] = 100,
    state_dir: StateOption = None,
    *,
    dry_run: DryRunOption = False,
    look: OldDryRunOption = False,
) -> None:
    """Delete old runs with their steps and events. Notes and documents are kept."""
    finish(_prune(days, keep, state_dir, dry_run=dry_run or look))


def delete_runs(
    runs: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids of runs, as `hearth runs` shows them.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Delete ended runs with their steps and events: all of them or, after an error, none."""
    finish(_delete(runs, state_dir))


def export_runs(
    runs: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids of runs, as `hearth runs` shows them.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Print runs with their steps and events as JSON Lines."""
    finish(_export(runs, state_dir))


def import_runs(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The exported runs. - reads standard input.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Import exported runs: all of them or, after an error, none."""
    finish(_import(partial(_read, file), state_dir))


async def _prune(days: float, keep: int, state_dir: Path | None, *, dry_run: bool) -> int:
    async with connect(state_dir) as client:
        body = {"days": days, "keep": keep, "look": dry_run}
        runs = (await client.request("POST", "/api/runs/prune", body))["runs"]
    for run in runs:
        typer.echo(run)
    typer.echo(f"{len(runs)} runs {'would be' if dry_run else 'are'} removed.", err=True)
    return DONE


async def _delete(runs: list[str], state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("POST", "/api/runs/delete", {"runs": runs})
    typer.echo(f"{len(runs)} runs are removed.", err=True)
    return DONE


async def _export(runs: list[str], state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        lines = await client.text("POST", "/api/runs/export", json={"runs": runs})
    typer.echo(lines, nl=False)
    return DONE


async def _import(read: Callable[[], str], state_dir: Path | None) -> int:
    lines = read()
    async with connect(state_dir) as client:
        imported = await client.request("POST", "/api/runs/import", content=lines.encode())
    for run in imported["runs"]:
        typer.echo(run)
    return DONE


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} cannot be read: {error}.", code=INVALID) from error
