"""`hearth knowledge`: documents of this home that are indexed, searched and cited."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, LimitOption, StateOption
from pipecatapp.cli.runs import console
from pipecatapp.client import Client, connect, segment

ADDRESS: Final = "/api/knowledge"
PAUSE: Final = 0.5
"""Seconds between two looks at the progress."""

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a source, as `hearth knowledge` shows it.")
]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until the documents are indexed (--wait).")
]
ReadersOption = Annotated[
    str,
    typer.Option(
        "--readers",
        metavar="KEYS",
        help="Names of keys that may read it, with commas; `all` for every key. Default: only the"
        " built-in key.",
    ),
]


def list_sources(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List sources with the state of their index."""
    if context.invoked_subcommand is None:
        finish(_list(state_dir, as_json=as_json))


def add_source(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Lower case letters, digits and hyphens.")
    ],
    paths: Annotated[
        list[Path], typer.Argument(metavar="FOLDER|FILE...", help="Folders or files to index.")
    ],
    readers: ReadersOption = "",
    state_dir: StateOption = None,
    *,
    wait: WaitOption = True,
    as_json: JsonOption = False,
) -> None:
    """Add folders or files as a source, and index them. Changes are indexed while Hearth runs."""
    finish(_add(name, paths, readers, state_dir, wait=wait, as_json=as_json))


def show_source(
    name: NameArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Show a source and the files that cannot be indexed."""
    finish(_show(name, state_dir, as_json=as_json))


def update_source(
    name: NameArgument,
    state_dir: StateOption = None,
    *,
    wait: WaitOption = True,
    as_json: JsonOption = False,
) -> None:
    """Index the changed documents of a source now."""
    finish(_update(name, state_dir, wait=wait, as_json=as_json))


def change_readers(
    name: NameArgument, readers: ReadersOption = "", state_dir: StateOption = None
) -> None:
    """Replace the keys that may read a source."""
    finish(_change_readers(name, readers, state_dir))


def remove_source(name: NameArgument, state_dir: StateOption = None) -> None:
    """Remove a source and its content from the index. The documents stay."""
    finish(_remove(name, state_dir))


def search_sources(
    query: Annotated[str, typer.Argument(metavar="WORDS", help="A question or words.")],
    sources: Annotated[
        list[str], typer.Option("--source", metavar="NAME", help="Search only this source.")
    ] = [],  # noqa: B006
    limit: LimitOption = 5,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Search the documents by meaning and words. Exit code 1: nothing was found."""
    finish(_search(query, sources, limit, state_dir, as_json=as_json))


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", ADDRESS)
    if as_json:
        return _print(found)
    if not found["sources"]:
        typer.echo("There are no sources. Add one: hearth knowledge add NAME FOLDER")
        return DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "files", "passages", "state", "readers", "paths"):
        table.add_column(column)
    for one in found["sources"]:
        counts = one["counts"]
        table.add_row(
            one["name"], str(counts["files"]), str(counts["passages"]), _state(one),
            _readers(one), ", ".join(one["paths"]),
        )  # fmt: skip
    console().print(table)
    return DONE


async def _add(
    name: str,
    paths: list[Path],
    readers: str,
    state_dir: Path | None,
    *,
    wait: bool,
    as_json: bool,
) -> int:
    body = {
        "name": name,
        "paths": [str(path.expanduser().absolute()) for path in paths],
        "readers": _names(readers),
    }
    async with connect(state_dir) as client:
        await client.request("POST", ADDRESS, body)
        return await _finished(client, name, wait=wait, as_json=as_json)


async def _show(name: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", f"{ADDRESS}/{segment(name)}")
    return _print(found) if as_json else _summary(found)


async def _update(name: str, state_dir: Path | None, *, wait: bool, as_json: bool) -> int:
    async with connect(state_dir) as client:
        await client.request("POST", f"{ADDRESS}/{segment(name)}/update")
        return await _finished(client, name, wait=wait, as_json=as_json)


async def _change_readers(name: str, readers: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        body = {"readers": _names(readers)}
        source = await client.request("PUT", f"{ADDRESS}/{segment(name)}/readers", body)
    typer.echo(f"{name} can be read by: {_readers(source)}.")
    return DONE


async def _remove(name: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("DELETE", f"{ADDRESS}/{segment(name)}")
    typer.echo(f"Removed {name} from the index.", err=True)
    return DONE


async def _search(
    query: str, sources: list[str], limit: int, state_dir: Path | None, *, as_json: bool
) -> int:
    if not query.strip():
        raise CommandFailed("Write a question or words to search for.", code=INVALID)
    async with connect(state_dir) as client:
        params = {"query": query, "source": sources, "limit": limit}
        found = await client.request("GET", f"{ADDRESS}/search", params=params)
    if as_json:
        _print(found)
    else:
        _print_result(found)
    return DONE if found["passages"] else 1


def _print_result(found: dict[str, Any]) -> None:
    for passage in found["passages"]:
        place = f"page {passage['page']}, " if passage["page"] else ""
        lines = f"{place}lines {passage['line']}-{passage['last_line']}"
        typer.echo(f"{passage['citation']}  ({lines})\n{passage['text']}\n")
    if found["by_words"]:
        typer.echo(f"Only the words were compared: {found['by_words']}", err=True)
    if not found["sources"]:
        typer.echo("There are no sources. Add one: hearth knowledge add NAME FOLDER", err=True)
    elif not found["passages"]:
        typer.echo("No document fits.", err=True)


async def _finished(client: Client, name: str, *, wait: bool, as_json: bool) -> int:
    """Show the progress until a source is ready, then the source; 1 if it cannot be read."""
    address = f"{ADDRESS}/{segment(name)}"
    found = await client.request("GET", address)
    with Status("", console=Console(stderr=True)) as status:
        while wait and found["state"] != "ready":
            status.update(_state(found))
            await asyncio.sleep(PAUSE)
            found = await client.request("GET", address)
    if as_json:
        _print(found)
    else:
        _summary(found)
    return 1 if found["error"] else DONE


def _summary(source: dict[str, Any]) -> int:
    counts = source["counts"]
    typer.echo(
        f"{source['name']}: {counts['files']} files, {counts['passages']} passages,"
        f" {counts['embedded']} of them found by meaning, too."
    )
    typer.echo(f"State: {_state(source)}. Readers: {_readers(source)}.")
    for path in source["paths"]:
        typer.echo(f"  {path}")
    if source["error"]:
        typer.echo(source["error"], err=True)
    if source["waiting_for"]:
        typer.echo(f"Found only by words: {source['waiting_for']}", err=True)
    for failure in source["failures"]:
        typer.echo(f"Not indexed: {failure['path']}: {failure['error']}", err=True)
    hidden = counts["failed"] - len(source["failures"])
    if hidden > 0:
        typer.echo(f"{hidden} further files are not indexed.", err=True)
    return DONE


def _state(source: dict[str, Any]) -> str:
    counts = source["counts"]
    match source["state"]:
        case "reading":
            return f"reading file {source['done']} of {source['total']}"
        case "embedding":
            return f"embedding passage {counts['embedded']} of {counts['passages']}"
        case state:
            return "error" if source["error"] else str(state)


def _names(readers: str) -> list[str]:
    return [name for part in readers.split(",") if (name := part.strip())]


def _readers(source: dict[str, Any]) -> str:
    if "*" in source["readers"]:
        return "all keys"
    return ", ".join(source["readers"]) or "built-in key"


def _print(found: Any) -> int:
    json.dump(found, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
    return DONE
