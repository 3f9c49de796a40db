"""`hearth conversations`: list, rename, pin, branch, delete and export conversations."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from pipecatapp.cli.exit_codes import DONE, finish
from pipecatapp.cli.options import JsonOption, LimitOption, StateOption, say_rest
from pipecatapp.cli.runs import console
from pipecatapp.client import connect, segment

IdArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of a conversation, as `hearth conversations` shows it."),
]


def conversation_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="Manage conversations: list, rename, pin, branch, delete and export.",
        invoke_without_command=True,
    )
    group.callback()(list_conversations)
    group.command("list")(list_conversations)
    group.command("rename")(rename_conversation)
    group.command("pin")(pin_conversation)
    group.command("unpin")(unpin_conversation)
    group.command("branch")(branch_conversation)
    group.command("delete")(delete_conversation)
    group.command("export")(export_conversation)
    app.add_typer(group, name="conversations")


def list_conversations(
    context: typer.Context,
    text: Annotated[
        str,
        typer.Option(
            metavar="WORDS", help="Only results with these words or words that start with them."
        ),
    ] = "",
    limit: LimitOption = 50,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List conversations, newest first."""
    if context.invoked_subcommand is None:
        finish(_list(text, limit, state_dir, as_json=as_json))


def rename_conversation(
    id: IdArgument,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="The new title.")],
    state_dir: StateOption = None,
) -> None:
    """Rename a conversation."""
    finish(_rename(id, title, state_dir))


def pin_conversation(id: IdArgument, state_dir: StateOption = None) -> None:
    """Pin a conversation to the top of the list."""
    finish(_pin(id, state_dir, pinned=True))


def unpin_conversation(id: IdArgument, state_dir: StateOption = None) -> None:
    """Unpin a conversation."""
    finish(_pin(id, state_dir, pinned=False))


def branch_conversation(
    id: IdArgument,
    at: Annotated[
        str,
        typer.Option(metavar="RUN", help="Run of the last turn to copy. Default: all turns."),
    ] = "",
    state_dir: StateOption = None,
) -> None:
    """Create a conversation that starts with the turns of another one."""
    finish(_branch(id, at, state_dir))


def delete_conversation(id: IdArgument, state_dir: StateOption = None) -> None:
    """Delete a conversation with all its runs, including running ones. Its notes are kept."""
    finish(_delete(id, state_dir))


def export_conversation(
    id: IdArgument,
    format: Annotated[
        Literal["markdown", "json"], typer.Option("--format", help="Format of the export.")
    ] = "markdown",
    state_dir: StateOption = None,
) -> None:
    """Print a conversation with all its turns."""
    finish(_export(id, format, state_dir))


def _path(id: str) -> str:
    return f"/api/conversations/{segment(id)}"


async def _list(text: str, limit: int, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        params = {"text": text, "limit": limit}
        page = await client.request("GET", "/api/conversations", params=params)
    if as_json:
        typer.echo(json.dumps(page, indent=2, ensure_ascii=False))
    elif not page["conversations"]:
        typer.echo("No matching conversations." if text else "No conversations yet.")
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("id", "updated", "title"):
            table.add_column(name, no_wrap=True, overflow="ellipsis")
        for each in page["conversations"]:
            pinned = "(pinned) " if each["pinned"] else ""
            title = Text(pinned + " ".join(each["title"].split()))
            table.add_row(Text(each["id"]), each["updated"], title)
        console().print(table)
        say_rest(len(page["conversations"]), page["total"], "conversations", "--text")
    return DONE


async def _rename(id: str, title: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        renamed = await client.request("PATCH", _path(id), {"title": title})
    typer.echo(f"{id} is renamed to {renamed['title']}.")
    return DONE


async def _pin(id: str, state_dir: Path | None, *, pinned: bool) -> int:
    async with connect(state_dir) as client:
        await client.request("PATCH", _path(id), {"pinned": pinned})
    typer.echo(f"{id} is {'listed first' if pinned else 'no longer listed first'}.")
    return DONE


async def _branch(id: str, at: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        if not at:
            last = await client.request("GET", _path(id), params={"limit": 1})
            at = last["turns"][-1]["run"] if last["turns"] else ""
        created = await client.request("POST", f"{_path(id)}/branch", {"run": at})
    typer.echo(created["id"])
    return DONE


async def _delete(id: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        answer = await client.request("DELETE", _path(id))
    typer.echo(f"{id} is deleted: {answer['runs']} runs. {answer['notes']} notes stay.")
    return DONE


async def _export(id: str, format: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        text = await client.text("GET", f"{_path(id)}/export", params={"format": format})
    typer.echo(text, nl=False)
    return DONE
