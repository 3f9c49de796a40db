"""`hearth code memory`: the files of a project as its runs left them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.code import repository_of
from pipecatapp.cli.exit_codes import DONE, exit_codes, finish
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.client import connect

ADDRESS = "/api/code/memory"


def code_memory(
    path: Annotated[
        str, typer.Argument(metavar="[FILE]", help="A file to show with its history.")
    ] = "",
    repo: Annotated[
        Path, typer.Option("--repo", metavar="FOLDER", help="The git repository.")
    ] = Path(),
    name: Annotated[
        str, typer.Option("--name", help="List only paths that contain this text.")
    ] = "",
    text: Annotated[str, typer.Option("--search", help="Show the lines with this text.")] = "",
    state_dir: StateOption = None,
    *,
    export: Annotated[
        bool, typer.Option("--export", help="Print all files with their versions as JSON.")
    ] = False,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove the files that ended runs have stored.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List, search, show, export or clear the files of a repository as runs have left them.

    The latest content of a file is that of the newest run that has it.
    """
    with exit_codes():
        source = str(repository_of(repo))
    if export or clear:
        finish(_all(source, state_dir, clear=clear))
    elif path:
        finish(_show(source, path, state_dir, as_json=as_json))
    else:
        finish(_list(source, (name, text), state_dir, as_json=as_json))


async def _all(source: str, state_dir: Path | None, *, clear: bool) -> int:
    async with connect(state_dir) as client:
        if not clear:
            options = {"params": {"source": source}}
            typer.echo(await client.text("GET", f"{ADDRESS}/export", **options), nl=False)
            return DONE
        done = await client.request("DELETE", ADDRESS, params={"source": source})
    typer.echo(f"Removed the files of {done['runs']} run{'s' if done['runs'] != 1 else ''}.")
    return DONE


async def _show(source: str, path: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        file = await client.request(
            "GET", f"{ADDRESS}/file", params={"source": source, "path": path}
        )
    if as_json:
        typer.echo(json.dumps(file, indent=2))
        return DONE
    for version in file["versions"]:
        typer.echo(f"{version['at']}  {version['run']}  {version['about']}")
    typer.echo(f"\n{file['content']}", nl=False)
    return DONE


async def _list(
    source: str, wanted: tuple[str, str], state_dir: Path | None, *, as_json: bool
) -> int:
    name, text = wanted
    async with connect(state_dir) as client:
        params = {"source": source, "name": name, "text": text, "limit": 5000}
        found = await client.request("GET", ADDRESS, params=params)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    elif text:
        for line in found["lines"]:
            typer.echo(f"{line['path']}:{line['line']}: {line['text'].strip()}")
    else:
        for path in found["files"]:
            typer.echo(path)
    return DONE
