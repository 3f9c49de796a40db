"""`hearth bundles`: documents in a signed file, for another instance and from one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hearth.files import write_atomic
from pipecatapp.cli.exit_codes import DONE, FAILED, INVALID, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.cli.runs import console
from pipecatapp.client import connect

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The bundle.")]


def list_keys(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List the fingerprints of this instance's key and of the keys that it trusts."""
    if context.invoked_subcommand is None:
        finish(_keys(state_dir, as_json=as_json))


def export_bundle(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Workflows or tasks by id, or others such as prompt/x, layer/x, project/x.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    state_dir: StateOption = None,
) -> None:
    """Write documents, with those that they need, to a signed bundle. Secrets stay here."""
    finish(_export(names, output, state_dir))


def show_bundle(
    file: FileArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Print the signer of a bundle and the changes that an import would make."""
    finish(_show(file, state_dir, as_json=as_json))


def import_bundle(
    file: FileArgument,
    trust: Annotated[
        str,
        typer.Option(
            metavar="FINGERPRINT", help="Trust the key of the bundle, after comparing this."
        ),
    ] = "",
    replace: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="A changed document to replace; * for all. Repeatable."),
    ] = [],  # noqa: B006
    state_dir: StateOption = None,
) -> None:
    """Store the new documents of a bundle. Documents that differ here are kept, unless named by
    --replace.
    """
    finish(_import(file, trust, replace, state_dir))


async def _keys(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", "/api/bundles/keys")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return DONE
    typer.echo(f"Your key: {found['own'] or 'made by the first export'}")
    for one in found["trusted"]:
        typer.echo(f"Trusted since {one['since']}: {one['fingerprint']}")
    return DONE


async def _export(names: list[str], output: Path, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        content = await client.content("GET", "/api/bundles", params={"document": names})
        shown = await client.request("POST", "/api/bundles/preview", content=content)
    try:
        write_atomic(output, content)
    except OSError as error:
        reason = f"{output} cannot be written: {error.strerror}."
        raise CommandFailed(reason, code=FAILED) from error
    documents = ", ".join(f"{one['kind']}/{one['id']}" for one in shown["documents"])
    typer.echo(f"{output} has {documents}.")
    typer.echo(f"Fingerprint of your key: {shown['fingerprint']}")
    return DONE


async def _show(file: Path, state_dir: Path | None, *, as_json: bool) -> int:
    content = _read(file)
    async with connect(state_dir) as client:
        shown = await client.request("POST", "/api/bundles/preview", content=content)
    if as_json:
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return DONE
    trusted = "trusted" if shown["trusted"] else "not trusted"
    typer.echo(f"Signed by {shown['fingerprint']} ({trusted}), written by Hearth {shown['hearth']}")
    console().print(_table(shown["documents"]))
    for one in shown["documents"]:
        for problem in one["problems"]:
            typer.echo(problem)
        if one["state"] == "changed":
            typer.echo(one["diff"])
    return DONE


async def _import(file: Path, trust: str, replace: list[str], state_dir: Path | None) -> int:
    content = _read(file)
    async with connect(state_dir) as client:
        taken = await client.request(
            "POST", "/api/bundles", content=content, params={"trust": trust, "replace": replace}
        )
    if taken["stored"]:
        typer.echo(f"Stored: {', '.join(taken['stored'])}")
    if taken["kept"]:
        typer.echo(f"Left as they were here: {', '.join(taken['kept'])}")
    return DONE


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}.", code=INVALID) from error


def _table(documents: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("document", "here", "effects of its runs"):
        table.add_column(name)
    for one in documents:
        state = "not usable" if one["problems"] else one["state"]
        table.add_row(f"{one['kind']}/{one['id']}", state, ", ".join(one["effects"]))
    return table
