"""Files on the command line: given to a run, listed, and copied out of it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final

import typer

from pipecatapp.cli.documents.output import json_out, table_out
from pipecatapp.cli.exit_codes import DONE, INVALID, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.cli.runs import RunArgument
from pipecatapp.client import Client, connect, segment

CHUNK: Final = 1 << 20

FilesOption = Annotated[
    list[str],
    typer.Option(
        "--file",
        "-f",
        metavar="[NAME=]PATH",
        help="Give the run a copy of a file, by its own name or as NAME. Repeatable.",
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FOLDER",
        help="Copy the files that the run has made or changed to this folder.",
    ),
]


def files_of_run(
    run: RunArgument,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A file of the run; it is printed.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Copy the file to FILE.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The files as this step left them. Default: the end."),
    ] = None,
    state_dir: StateOption = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list files that the run did not change.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the files that a run has made or changed, or print one of them."""
    query: dict[str, Any] = {} if step is None else {"step": step}
    if path is not None:
        finish(_one(run, path, output, query, state_dir))
    elif output is not None:
        raise typer.BadParameter("name the file of the run that is copied", param_hint="--output")
    else:
        finish(_list(run, query | {"all": everything}, state_dir, as_json=as_json))


async def uploaded(client: Client, words: Iterable[str]) -> dict[str, str]:
    """Upload the files of `--file` options; return their ids by path. Raises `CommandFailed`."""
    files: dict[str, str] = {}
    for word in words:
        name, equals, source = word.partition("=")
        path = Path(source if equals else word)
        target = name if equals else path.name
        if not await asyncio.to_thread(path.is_file):
            raise CommandFailed(f"--file {word}: there is no file {path}.", code=INVALID)
        if target in files:
            raise CommandFailed(f"--file: {target} is named twice.", code=INVALID)
        try:
            answer = await client.request("POST", "/api/files", content=_parts(path))
        except OSError as error:
            raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from error
        files[target] = answer["id"]
    return files


async def save(client: Client, run: str, folder: Path) -> None:
    """Copy the files that a run has made or changed; none replaces another file.

    Raises `CommandFailed` with the names that exist; the other files are copied.
    """
    found = await client.request("GET", f"/api/runs/{segment(run)}/files")
    there = []
    for file in found["files"]:
        target = folder / _inside(file["path"])
        if await asyncio.to_thread(os.path.lexists, target):
            there.append(str(target))
            continue
        content = await client.content("GET", _address(run, file["path"]))
        await asyncio.to_thread(_write, target, content)
        typer.echo(f"Saved {target}", err=True)
    if there:
        raise CommandFailed(
            f"Not saved, because a file exists there: {', '.join(there)}. "
            f"`hearth runs files {run} PATH --output FILE` copies one elsewhere."
        )
    if found["total"] > len(found["files"]):
        raise CommandFailed(f"Only {len(found['files'])} of {found['total']} files were saved.")


async def _list(run: str, query: dict[str, Any], state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", f"/api/runs/{segment(run)}/files", params=query)
    if as_json:
        return json_out(found)
    lines = [
        {
            "size": f"{file['size']:,}",
            "type": file["type"],
            "changed": "yes" if file["changed"] else "no",
            "path": json.dumps(file["path"], ensure_ascii=False)[1:-1],
        }
        for file in found["files"]
    ]
    empty = "The run has made no files." if found["kept"] else "The files of the run are gone."
    return table_out(lines, ("size", "type", "changed", "path"), otherwise=empty)


async def _one(
    run: str, path: str, output: Path | None, query: dict[str, Any], state_dir: Path | None
) -> int:
    async with connect(state_dir) as client:
        content = await client.content("GET", _address(run, path), params=query)
    if output is None:
        typer.echo(content, nl=False)
    else:
        await asyncio.to_thread(_write, output, content)
    return DONE


def _address(run: str, path: str) -> str:
    return f"/api/runs/{segment(run)}/files/{'/'.join(map(segment, path.split('/')))}"


def _inside(path: str) -> PurePosixPath:
    """Return the path of a file of a run; raises `CommandFailed` if it leads out of a folder."""
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise CommandFailed(f"{path!r} is not a path inside a folder.")
    return relative


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from error


async def _parts(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as stream:
        while data := await asyncio.to_thread(stream.read, CHUNK):
            yield data
