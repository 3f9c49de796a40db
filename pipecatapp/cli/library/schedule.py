"""`hearth schedule`: what starts by itself."""

import json
import re
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_inputs
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.cli.runs import console, status_text
from pipecatapp.client import connect, segment

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a schedule, as `hearth schedule` shows it.")
]


def list_schedules(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List schedules in order of their next start, including documents with `schedule:`."""
    if context.invoked_subcommand is None:
        finish(_list(state_dir, as_json=as_json))


def add_schedule(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Id of the schedule: lower case letters, digits and hyphens."
        ),
    ],
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="A workflow's id.")],
    cron: Annotated[
        str | None, typer.Option(help="Cron expression, such as '0 8 * * 1': Mondays at 8.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Interval instead of --cron, such as 30m or 6h.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of --cron, such as Europe/Berlin.")
    ] = None,
    given: Annotated[
        list[str],
        typer.Option("--input", metavar="NAME=VALUE", help="An input of the workflow. Repeatable."),
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
) -> None:
    """Start a workflow at regular times. If the instance was not running, it starts once for all
    missed times.
    """
    finish(_add(id, Timed(workflow, cron, every, zone, given), state_dir))


def remove_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Remove a schedule. Its runs are kept."""
    finish(_remove(id, state_dir))


def pause_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Pause a schedule until `hearth schedule resume`."""
    finish(_pause(id, state_dir, paused=True))


def resume_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Resume a schedule from its next time on."""
    finish(_pause(id, state_dir, paused=False))


def run_schedule(id: IdArgument, state_dir: StateOption = None) -> None:
    """Start a schedule's workflow now."""
    finish(_run(id, state_dir))


class Timed:
    """The options of the command line for a schedule."""

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
            self.every = None if every is None else _seconds(every)
        except ValueError as error:
            raise CommandFailed(f"--every: {error}.", code=INVALID) from error

    def new(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schedule for the API, with inputs converted according to the workflow's
        schema."""
        times = {"cron": self.cron, "every": self.every, "zone": self.zone}
        inputs = parse_inputs(self.given, schema)
        given = {name: value for name, value in times.items() if value is not None}
        return {"workflow": self.workflow, "inputs": inputs, **given}


def _seconds(text: str) -> float:
    return float(import_module("pipecatapp.application.engine").seconds_of(text))


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = (await client.request("GET", "/api/schedules"))["schedules"]
    if as_json:
        typer.echo(json.dumps({"schedules": found}, indent=2, ensure_ascii=False))
    elif found:
        console().print(table_of(found))
    else:
        typer.echo("Nothing starts by itself. See `hearth schedule add --help`.")
    return DONE


async def _add(id: str, timed: Timed, state_dir: Path | None) -> int:
    if not re.match(r"^[a-z][a-z0-9-]*$", id):
        raise CommandFailed(
            f"{id!r} is not a valid id: use lower case letters, digits and hyphens.", code=INVALID
        )
    async with connect(state_dir) as client:
        workflow = await client.request("GET", f"/api/workflows/{segment(timed.workflow)}")
        new = timed.new(workflow["inputs"])
        made = await client.request("PUT", f"/api/schedules/{segment(id)}", new)
    typer.echo(f"{id} starts {made['workflow']} next at {moment(made['due'])}.")
    return DONE


async def _remove(id: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("DELETE", f"/api/schedules/{segment(id)}")
    typer.echo(f"{id} is removed.")
    return DONE


async def _pause(id: str, state_dir: Path | None, *, paused: bool) -> int:
    async with connect(state_dir) as client:
        verb = "pause" if paused else "resume"
        after = await client.request("POST", f"/api/schedules/{segment(id)}/{verb}")
    typer.echo(f"{id} is paused." if paused else f"{id} starts next at {moment(after['due'])}.")
    return DONE


async def _run(id: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        started = await client.request("POST", f"/api/schedules/{segment(id)}/run")
    typer.echo(started["run"])
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
    """Return a time in the local zone."""
    return (
        "never" if text is None else f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}"
    )
