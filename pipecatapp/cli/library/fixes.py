"""`hearth fixes`: changes that made failing tests pass, which `hearth code fix` tries first."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, LimitOption, StateOption, say_rest
from pipecatapp.cli.runs import console
from pipecatapp.client import connect, segment

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a fix, as `hearth fixes` shows it.")
]


def list_fixes(
    context: typer.Context,
    words: Annotated[
        str,
        typer.Option(
            "--search", help="Only fixes with these words in the error, language, file or symbol."
        ),
    ] = "",
    limit: LimitOption = 50,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List stored fixes, the last used first."""
    if context.invoked_subcommand is None:
        finish(_list(words, limit, state_dir, as_json=as_json))


def show_fix(id: IdArgument, state_dir: StateOption = None, *, as_json: JsonOption = False) -> None:
    """Print the error, counts and changed lines of a fix."""
    finish(_show(id, state_dir, as_json=as_json))


def export_fixes(
    ids: Annotated[
        list[str], typer.Argument(metavar="[ID...]", help="Ids of fixes. Default: all.")
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
) -> None:
    """Print fixes as JSON for `hearth fixes import` in another home."""
    finish(_export(ids, state_dir))


def import_fixes(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The exported fixes. - reads standard input.")
    ],
    state_dir: StateOption = None,
) -> None:
    """Import exported fixes: all of them or, if an entry is invalid, none. Reports every invalid
    entry."""
    finish(_import(partial(_read, file), state_dir))


def forget_fixes(
    ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Ids of fixes, as `hearth fixes` shows them."),
    ],
    state_dir: StateOption = None,
) -> None:
    """Remove fixes: all of them or, after an error, none."""
    finish(_forget(ids, state_dir))


async def _list(words: str, limit: int, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        params = {"query": words, "limit": limit}
        page = await client.request("GET", "/api/fixes", params=params)
    if as_json:
        typer.echo(json.dumps(page, indent=2, ensure_ascii=False))
        return DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    table.add_column("worked", no_wrap=True)
    table.add_column("language")
    table.add_column("error", overflow="ellipsis", no_wrap=True, ratio=1)
    for fix in page["fixes"]:
        table.add_row(fix["id"], _worked(fix), fix["language"], fix["signature"])
    console().print(table)
    narrow = "--search, or print all with `hearth fixes export`"
    say_rest(len(page["fixes"]), page["total"], "fixes", narrow)
    return DONE


async def _show(id: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        fix = await client.request("GET", f"/api/fixes/{segment(id)}")
    typer.echo(json.dumps(fix, indent=2, ensure_ascii=False) if as_json else _text(fix))
    return DONE


def _text(fix: dict[str, Any]) -> str:
    lines = [
        fix["signature"],
        f"Worked {_worked(fix)} times; stored {fix['at']}, used {fix['used']}.",
    ]
    for change in fix["edit"]:
        lines += ["", " ".join(filter(None, (change["path"], change["symbol"]))), *change["lines"]]
    return "\n".join(lines)


def _worked(fix: dict[str, Any]) -> str:
    return f"{fix['green']} of {fix['applied']}"


async def _export(ids: list[str], state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        text = await client.text("GET", "/api/fixes/export", params={"id": ids})
    typer.echo(text, nl=False)
    return DONE


def _read(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error}.", code=INVALID) from error


async def _import(read: Callable[[], bytes], state_dir: Path | None) -> int:
    content = read()
    async with connect(state_dir) as client:
        new = (await client.request("POST", "/api/fixes/import", content=content))["new"]
    typer.echo(f"Imported {new} new {'fix' if new == 1 else 'fixes'}.")
    return DONE


async def _forget(ids: list[str], state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        await client.request("POST", "/api/fixes/forget", {"fixes": ids})
    typer.echo(f"Removed {len(ids)} {'fix' if len(ids) == 1 else 'fixes'}.", err=True)
    return DONE
