"""`hearth projects`: what workflows know of the work they are part of."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pipecatapp.cli.exit_codes import DONE, finish
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.cli.runs import console
from pipecatapp.client import connect, segment


def list_projects(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List the projects in the folder `projects` of the state directory."""
    if context.invoked_subcommand is None:
        finish(_list(state_dir, as_json=as_json))


def show_project(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a project, as `hearth projects` shows it.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Print a project as workflows see it, as JSON. For a key, only its location is printed."""
    finish(_show(id, state_dir))


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = (await client.request("GET", "/api/projects"))["projects"]
    if as_json:
        typer.echo(json.dumps({"projects": found}, indent=2, ensure_ascii=False))
        return DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "languages", "repository", "vision"):
        table.add_column(name, no_wrap=name != "vision")
    for one in found:
        told = one["values"]
        table.add_row(one["id"], ", ".join(told["languages"]), told["repository"], told["vision"])
    console().print(table)
    return DONE


async def _show(id: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        project = await client.request("GET", f"/api/projects/{segment(id)}")
    typer.echo(json.dumps(project, indent=2, ensure_ascii=False))
    return DONE
