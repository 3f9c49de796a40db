"""`hearth schedule`: what starts by itself."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pipecatapp.cli.failure import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_inputs
from pipecatapp.cli.library.desk import open_library
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.cli.runs import console, status_text
from pipecatapp.schedules.store import ID, NewSchedule
from pipecatapp.workflow.document.model import seconds_of

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `hearth schedule` lists it.")]


def list_schedules(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List what starts by itself, the next one first; documents with `schedule:` included."""
    if context.invoked_subcommand is None:
        finish(_list(state_dir, as_json=as_json))


def add_schedule(
    id: Annotated[str, typer.Argument(metavar="ID", help="A name: lower case, with hyphens.")],
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="A workflow's id.")],
    cron: Annotated[str | None, typer.Option(help="Such as '0 8 * * 1': Mondays at 8.")] = None,
    every: Annotated[str | None, typer.Option(help="Such as 30m or 6h, instead.")] = None,
    zone: Annotated[str | None, typer.Option(help="Of --cron, such as Europe/Berlin.")] = None,
    given: Annotated[
        list[str], typer.Option("--input", metavar="NAME=VALUE", help="An input of the workflow.")
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
) -> None:
    """Start a workflow at certain times; the running instance does it, and makes up for the times
    it missed with one run.
    """
    finish(_add(id, Timed(workflow, cron, every, zone, given), state_dir))


def remove_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Forget one; its runs stay."""
    finish(_remove(id, state_dir))


def pause_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Start one no more until `resume`."""
    finish(_pause(id, state_dir, paused=True))


def resume_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Start one again, from its next time on."""
    finish(_pause(id, state_dir, paused=False))


def run_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Start one now, besides its times."""
    finish(_run(id, state_dir))


class Timed:
    """What the command line says of a schedule."""

    def __init__(
        self,
        workflow: str,
        cron: str | None,
        every: str | None,
        zone: str | None,
        given: list[str],
    ) -> None:
        self.workflow, self.cron, self.zone, self.given = workflow, cron, zone, given
        try:
            self.every = None if every is None else float(seconds_of(every))
        except ValueError as error:
            raise CommandFailed(f"--every: {error}.", code=INVALID) from error

    def new(self, schema: dict[str, Any]) -> NewSchedule:
        """With its inputs as the workflow wants them."""
        inputs = parse_inputs(self.given, schema)
        return NewSchedule(
            workflow=self.workflow, cron=self.cron, every=self.every, zone=self.zone, inputs=inputs
        )


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with open_library(state_dir) as library:
        found = await library.schedules()
    if as_json:
        typer.echo(json.dumps({"schedules": found}, indent=2, ensure_ascii=False))
    elif found:
        console().print(table_of(found))
    else:
        typer.echo("Nothing starts by itself. See `hearth schedule add --help`.")
    return DONE


async def _add(id: str, timed: Timed, state_dir: Path | None) -> int:
    if not re.match(ID, id):
        raise CommandFailed(f"{id!r} is no name: use lower case, digits, hyphens.", code=INVALID)
    async with open_library(state_dir) as library:
        new = timed.new(await library.inputs(timed.workflow))
        made = await library.put_schedule(id, new)
    typer.echo(f"{id} starts {made['workflow']} next at {moment(made['due'])}.")
    return DONE


async def _remove(id: str, state_dir: Path | None) -> int:
    async with open_library(state_dir) as library:
        await library.remove_schedule(id)
    typer.echo(f"{id} is removed.")
    return DONE


async def _pause(id: str, state_dir: Path | None, *, paused: bool) -> int:
    async with open_library(state_dir) as library:
        after = await library.pause_schedule(id, paused=paused)
    typer.echo(f"{id} is paused." if paused else f"{id} starts next at {moment(after['due'])}.")
    return DONE


async def _run(id: str, state_dir: Path | None) -> int:
    async with open_library(state_dir) as library:
        typer.echo(await library.run_schedule(id))
    return DONE


def table_of(schedules: list[dict[str, Any]]) -> Table:
    """One line a schedule."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "workflow", "when", "next", "last", "run"):
        table.add_column(name, no_wrap=name != "run")
    for one in schedules:
        last = status_text(one["status"]) if one["status"] else Text("")
        if one["error"]:
            last = Text(one["error"], style="red")
        table.add_row(
            one["id"],
            one["workflow"],
            when(one),
            "paused" if one["paused"] else moment(one["due"]),
            moment(one["started"]) if one["started"] else "never",
            Text(f"{one['run'] or ''} ") + last,
        )
    return table


def when(schedule: dict[str, Any]) -> str:
    """Its times, in words."""
    if schedule["every"] is not None:
        return f"every {schedule['every']:g} s"
    return f"{schedule['cron']}" + (f" {schedule['zone']}" if schedule["zone"] else "")


def moment(text: str | None) -> str:
    """A moment as it is read from the wall here."""
    return (
        "never" if text is None else f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}"
    )
