"""`hearth tasks`: the library of workflows with tags and versions."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.inputs import parse_inputs
from pipecatapp.cli.options import JsonOption, LimitOption, StateOption, say_rest, text_of
from pipecatapp.cli.run import to_the_end
from pipecatapp.cli.runs import console
from pipecatapp.client import connect, segment

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a task, as `hearth tasks` shows it.")
]
TagsOption = Annotated[list[str], typer.Option("--tag", help="A tag of the copy. Repeatable.")]


def list_tasks(
    context: typer.Context,
    words: Annotated[str, typer.Option("--search", help="Only results with these words.")] = "",
    tags: Annotated[
        list[str], typer.Option("--tag", help="Only tasks with this tag. Repeatable.")
    ] = [],  # noqa: B006
    limit: LimitOption = 50,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List stored tasks. Search results are sorted by relevance; a task must have all tags."""
    if context.invoked_subcommand is None:
        finish(_list(words, tags, limit, state_dir, as_json=as_json))


def show_task(
    id: IdArgument,
    version: Annotated[
        int | None, typer.Option(min=1, help="An older version. Default: the latest.")
    ] = None,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Print the document of a task."""
    finish(_show(id, version, state_dir, as_json=as_json))


def keep_task(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The workflow. It must have `tags:`.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Store a workflow as a task. A changed workflow becomes a new version."""
    finish(_keep(file, state_dir))


def remove_task(id: IdArgument, state_dir: StateOption = None) -> None:
    """Remove a task with all its versions. Its runs are kept."""
    finish(_remove(id, state_dir))


def keep_variant(
    id: IdArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Id of the new task.")],
    said: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Set a field. Numbers and lists are JSON. Repeatable.",
        ),
    ] = [],  # noqa: B006
    tags: TagsOption = [],  # noqa: B006
    about: Annotated[str, typer.Option(help="Description of the new task.")] = "",
    state_dir: StateOption = None,
) -> None:
    """Store a copy of a task with changed fields. Later changes to other fields of the original
    also apply to the copy."""
    finish(_variant(id, name, said, tags, about, state_dir))


def run_task(
    id: IdArgument,
    given: Annotated[
        list[str], typer.Option("--input", "-i", metavar="NAME=VALUE", help="An input. Repeatable.")
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Run a task. All its runs belong to one conversation."""
    finish(_run(id, given, state_dir, as_json=as_json))


async def _list(
    words: str, tags: list[str], limit: int, state_dir: Path | None, *, as_json: bool
) -> int:
    async with connect(state_dir) as client:
        params = {"q": words, "tag": tags, "limit": limit}
        page = await client.request("GET", "/api/tasks", params=params)
    if as_json:
        typer.echo(json.dumps(page, indent=2, ensure_ascii=False))
        return DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "version", "tags", "about"):
        table.add_column(name, no_wrap=name != "about")
    for one in page["tasks"]:
        table.add_row(one["id"], str(one["version"]), ", ".join(one["tags"]), one["about"])
    console().print(table)
    say_rest(len(page["tasks"]), page["total"], "tasks", "--search or --tag")
    return DONE


async def _show(id: str, version: int | None, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        params = {} if version is None else {"version": version}
        found = await client.request("GET", f"/api/tasks/{segment(id)}", params=params)
    told = json.dumps(found, indent=2, ensure_ascii=False) if as_json else found["document"]
    typer.echo(told.rstrip("\n"))
    return DONE


async def _keep(file: Path, state_dir: Path | None) -> int:
    text = text_of(str(file))
    async with connect(state_dir) as client:
        body = {"document": text, "file": str(file)}
        _kept(await client.request("POST", "/api/tasks", body))
    return DONE


async def _remove(id: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("DELETE", f"/api/tasks/{segment(id)}")
    typer.echo(f"{id} is removed.")
    return DONE


async def _variant(
    id: str, name: str, said: list[str], tags: list[str], about: str, state_dir: Path | None
) -> int:
    if not all("=" in word for word in said):
        raise CommandFailed("--set is of the form path=value.", code=INVALID)
    fields = {path: _value(text) for path, _, text in (word.partition("=") for word in said)}
    variant = {"id": name, "tags": tags, "about": about, "set": fields}
    async with connect(state_dir) as client:
        _kept(await client.request("POST", f"/api/tasks/{segment(id)}/variants", variant))
    return DONE


async def _run(id: str, given: list[str], state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        await client.request("GET", f"/api/tasks/{segment(id)}")
        workflow = await client.request("GET", f"/api/workflows/{segment(id)}")
        start = {
            "workflow": id,
            "inputs": parse_inputs(given, workflow["inputs"]),
            "conversation": f"task/{id}",
            "interactive": False,
        }
        run = (await client.request("POST", "/api/runs", start))["run"]
        return await to_the_end(client, run, asking=False, as_json=as_json)


def _kept(task: dict[str, Any]) -> None:
    typer.echo(
        f"Task {task['id']} is stored: version {task['version']}, {', '.join(task['tags'])}."
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
