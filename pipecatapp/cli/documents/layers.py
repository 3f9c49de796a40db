"""`hearth layers`: what is laid over workflows."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from pipecatapp.cli.documents.output import json_out, table_out
from pipecatapp.cli.exit_codes import DONE, finish
from pipecatapp.cli.options import ANY_VERSION, JsonOption, StateOption, text_of
from pipecatapp.client import connect, segment

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A layer's id.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The layer as YAML.")]


def list_layers(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List the saved layers."""
    if context.invoked_subcommand is None:
        finish(_list(state_dir, as_json=as_json))


def show_layer(
    name: NameArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Print the document of a layer."""
    finish(_show(name, state_dir, as_json=as_json))


def save_layer(file: FileArgument, state_dir: StateOption = None) -> None:
    """Save a layer under its id. An existing one is replaced."""
    finish(_save(file, state_dir))


def remove_layer(name: NameArgument, state_dir: StateOption = None) -> None:
    """Remove a layer. Runs that were started with it are not affected."""
    finish(_remove(name, state_dir))


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = (await client.request("GET", "/api/layers"))["layers"]
    if as_json:
        return json_out({"layers": found})
    return table_out(found, ("id", "of", "about"), otherwise="No layers are saved.")


async def _show(name: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = await client.request("GET", f"/api/layers/{segment(name)}")
    if as_json:
        return json_out(found)
    typer.echo(found["document"], nl=False)
    return DONE


async def _save(file: str, state_dir: Path | None) -> int:
    text = text_of(file)
    name = import_module("pipecatapp.application.engine").read_layer(text, file=file).id
    async with connect(state_dir) as client:
        path, body = f"/api/layers/{segment(name)}", {"document": text}
        kept = await client.request("PUT", path, body, headers=ANY_VERSION)
    typer.echo(f"Layer {name} is saved in {kept['file']}.")
    return DONE


async def _remove(name: str, state_dir: Path | None) -> int:
    async with connect(state_dir) as client:
        path = f"/api/layers/{segment(name)}"
        await client.request("DELETE", path, headers=ANY_VERSION)
    typer.echo(f"The layer {name} is removed.")
    return DONE
