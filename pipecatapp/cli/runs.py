"""`hearth runs`: the list, one run as a tree, cancel."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pipecatapp.cli.exit_codes import DONE, FAILED, INVALID, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, LimitOption, StateOption
from pipecatapp.client import connect, segment

COLOURS = {
    "running": "blue",
    "waiting": "yellow",
    "done": "green",
    "failed": "red",
    "cancelled": "magenta",
    "skipped": "dim",
    "queued": "dim",
}
PIPE_WIDTH = 160
"""Width in columns of output that is not a terminal, so that nothing is truncated."""

RunArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a run, as `hearth runs` shows it.")
]


def list_runs(
    context: typer.Context,
    limit: LimitOption = 20,
    before: Annotated[
        str | None, typer.Option(metavar="ID", help="Only runs older than this run.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="Only results with these words or words that start with them."
        ),
    ] = None,
    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None,
    status: Annotated[
        str | None, typer.Option(help=f"Only runs with this status: {', '.join(COLOURS)}.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Only runs of this conversation.")
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Only runs that belong to the key of this name."),
    ] = None,
    caller: Annotated[
        str | None,
        typer.Option(help="Only runs started by chat, api, cli, voice or schedule NAME."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only runs started on this day or later.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="Only runs started on this day or earlier, or before this time."
        ),
    ] = None,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the last runs that match every option, newest first."""
    if context.invoked_subcommand is None:
        wanted = {"before": before, "text": text, "workflow": workflow, "status": status}
        wanted |= {"person": person, "caller": caller, "since": since, "until": until}
        wanted["conversation"] = conversation
        finish(_list(limit, wanted, state_dir, as_json=as_json))


def _moment(text: str | None, *, end: bool = False) -> str | None:
    """Return a date or time of the local zone with its zone; for a date its start, or its `end`."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a valid date: use 2026-01-31 or 2026-01-31T18:00."
        raise CommandFailed(message, code=INVALID) from error
    is_date = len(text) <= len("2026-01-31")
    return (moment + timedelta(days=1 if end and is_date else 0)).astimezone().isoformat()


def show_run(
    run: RunArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Show a run: its steps as a tree with status, seconds and tokens."""
    finish(_show(run, state_dir, as_json=as_json))


def follow_run(
    run: RunArgument,
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Print the events of a run until it ends. --json prints one object per line."""
    finish(_follow(run, after, state_dir, as_json=as_json))


def cancel_run(run: RunArgument, state_dir: StateOption = None) -> None:
    """Cancel a run. Exit code 1: it has already ended."""
    finish(_cancel(run, state_dir))


def answer_run(
    run: RunArgument,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Path of the waiting step.")],
    value: Annotated[str, typer.Argument(help="The answer. Lists and objects are JSON.")],
    state_dir: StateOption = None,
) -> None:
    """Answer the question of a waiting run."""
    finish(_answer(run, path, value, state_dir))


def note_run(
    run: RunArgument,
    text: Annotated[
        str, typer.Argument(help="The note. It is part of every later prompt of the run.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Send a note to a running run."""
    finish(_note(run, text, state_dir))


def todo_run(
    run: RunArgument,
    strike: Annotated[
        str | None, typer.Option(metavar="ITEM", help="Remove an item that has not started.")
    ] = None,
    add: Annotated[str | None, typer.Option(metavar="TEXT", help="Add an item at the end.")] = None,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show the to-do list of a run, or remove or add an item while it runs."""
    if strike is not None and add is not None:
        raise typer.BadParameter("Use either --strike or --add.")
    change = {name: value for name, value in (("strike", strike), ("add", add)) if value}
    finish(_todo(run, change, state_dir, as_json=as_json))


async def _todo(run: str, change: dict[str, str], state_dir: Path | None, *, as_json: bool) -> int:
    path = f"/api/runs/{segment(run)}/todo"
    async with connect(state_dir) as client:
        listed = await client.request("POST" if change else "GET", path, change or None)
    if as_json:
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return DONE
    if not listed["items"]:
        typer.echo("This run has no to-do list yet.")
    for item in listed["items"]:
        typer.echo(f"{item['state']:9} {item['id']}: {item['text']}")
    return DONE


async def _answer(run: str, path: str, value: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        answer = {"path": path, "value": value}
        await client.request("POST", f"/api/runs/{segment(run)}/answer", answer)
    typer.echo(f"The question of {path} in run {run} is answered.")
    return DONE


async def _note(run: str, text: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        note = {"text": text, "by": "cli"}
        await client.request("POST", f"/api/runs/{segment(run)}/notes", note)
    typer.echo(f"The note was sent to run {run}.")
    return DONE


async def _list(
    limit: int, wanted: dict[str, str | None], state_dir: Path | None, *, as_json: bool
) -> int:
    if wanted["status"] not in (None, *COLOURS):
        raise CommandFailed(f"--status is one of {', '.join(COLOURS)}.", code=INVALID)
    wanted["since"] = _moment(wanted["since"])
    wanted["until"] = _moment(wanted["until"], end=True)
    async with connect(state_dir) as client:
        params = {"limit": limit} | {name: said for name, said in wanted.items() if said}
        page = await client.request("GET", "/api/runs", params=params)
    if as_json:
        typer.echo(json.dumps(page, indent=2, ensure_ascii=False))
    elif page["runs"]:
        console().print(table_of(page["runs"]))
        if page["next"]:
            older = f"Older runs are not shown. List them with --before {page['next']}."
            typer.echo(older, err=True)
    else:
        typer.echo(
            "No matching runs."
            if any(wanted.values())
            else "No runs yet. Start one: hearth run agent-turn --input text='Hello'"
        )
    return DONE


async def _follow(run: str, after: int, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        async for event in client.events(run, after=after):
            if as_json:
                typer.echo(json.dumps(event, ensure_ascii=False))
            elif event["type"] != "delta":
                typer.echo(line_of(event))
    return DONE


def line_of(event: dict[str, Any]) -> str:
    """One event on one line: number, time, type, path, and what is to be known of it."""
    at = datetime.fromisoformat(event["at"]).astimezone()
    known = {name: said for name, said in event["data"].items() if said not in (None, "", {})}
    facts = json.dumps(known, ensure_ascii=False) if known else ""
    return (
        f"{event['seq']:>6}  {at:%H:%M:%S}  {event['type']:<14} {event['path']}  {facts}".rstrip()
    )


async def _show(run: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        view = await client.request("GET", f"/api/runs/{segment(run)}")
    if as_json:
        typer.echo(json.dumps(view, indent=2, ensure_ascii=False))
    else:
        console().print(tree_of(view))
    return DONE


async def _cancel(run: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        path = f"/api/runs/{segment(run)}"
        before = (await client.request("GET", path))["status"]
        after = (await client.request("POST", f"{path}/cancel"))["status"]
    if before in ("done", "failed", "cancelled"):
        raise CommandFailed(f"Run {run} had ended before: {after}.", code=FAILED)
    typer.echo(f"Run {run} is {after}.")
    return DONE


def console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


def table_of(runs: Iterable[dict[str, Any]]) -> Table:
    """One line a run."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "workflow", "status", "started"):
        table.add_column(name, no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("request", overflow="ellipsis", no_wrap=True, ratio=1)
    for run in runs:
        started = datetime.fromisoformat(run["started"]).astimezone()
        table.add_row(
            run["id"],
            run["workflow"],
            status_text(run["status"]),
            f"{started:%Y-%m-%d %H:%M:%S}",
            seconds_text(run["seconds"]),
            str(run["tokens"]["prompt"] + run["tokens"]["completion"]),
            Text(" ".join(run["title"].split())),
        )
    return table


def tree_of(view: dict[str, Any]) -> Tree:
    """The run with its steps; a step inside another hangs below it."""
    root = Tree(_line(view["workflow"], view) + Text(f"  {view['id']}", style="dim"))
    branches: dict[str, Tree] = {}
    for step in view["steps"]:
        outer = nearest(step["path"], branches)
        label = step["path"].removeprefix(f"{outer}/") if outer else step["path"]
        parent = branches[outer] if outer else root
        branches[step["path"]] = parent.add(_line(label, step))
    return root


def nearest(path: str, known: Iterable[str]) -> str:
    """Return the longest known path that contains `path`; empty if there is none."""
    return max((one for one in known if path.startswith(f"{one}/")), key=len, default="")


def _line(label: str, what: dict[str, Any]) -> Text:
    line = Text(label) + Text("  ") + status_text(what["status"])
    tool = what.get("tool")
    facts = [tool] if tool and tool != label else []
    if what["seconds"] is not None:
        facts.append(f"{seconds_text(what['seconds'])} s")
    tokens = what["tokens"]["prompt"] + what["tokens"]["completion"]
    if tokens:
        facts.append(f"{tokens} tokens")
    if cached := what.get("facts", {}).get("cached"):
        facts.append(f"known from {cached['run']}" if cached["run"] else "pinned")
    facts += [f"instead of {one['model']}" for one in what.get("facts", {}).get("instead_of", [])]
    if what.get("why"):
        facts.append(what["why"])
    if what.get("model"):
        facts.append(what["model"])
    line.append("".join(f"  {fact}" for fact in facts), style="dim")
    if what["error"]:
        line.append(f"  {what['error']}", style="red")
    return line


def status_text(status: str) -> Text:
    return Text(status, style=COLOURS.get(status, ""))


def seconds_text(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"
