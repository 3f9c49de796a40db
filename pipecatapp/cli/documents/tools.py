"""`hearth tools`: what nodes can use; one call of a tool by hand."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from pipecatapp.cli.documents.output import json_out, table_out
from pipecatapp.cli.exit_codes import DONE, finish
from pipecatapp.cli.inputs import kinds_of
from pipecatapp.cli.options import AllowOption, JsonOption, StateOption, effects
from pipecatapp.cli.run import InputsOption, RunOptions, start_and_print
from pipecatapp.cli.run_files import FilesOption, SaveOption
from pipecatapp.cli.runs import console
from pipecatapp.client import connect, segment

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A tool, such as file.read.")]


def list_tools(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List the tools for workflow nodes with their effects. --json adds their schemas."""
    if context.invoked_subcommand is None:
        finish(_list(state_dir, as_json=as_json))


def show_tool(
    name: NameArgument, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Describe a tool: what it does, its effect, its inputs and outputs, and what it lacks here."""
    finish(_show(name, state_dir, as_json=as_json))


def run_tool(
    name: NameArgument,
    given: InputsOption = [],  # noqa: B006
    allow: AllowOption = [],  # noqa: B006
    files: FilesOption = [],  # noqa: B006
    save_to: SaveOption = None,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Call a tool once, as a run, and print its output.

    In a terminal you are asked for its inputs, one after the other; with `--input` only for the
    required ones that are missing. Exit codes are those of `hearth run`.
    """
    asking = sys.stdin.isatty() and not as_json
    options = RunOptions(given, [], None, files, save_to, asking=asking)
    finish(
        start_and_print(
            lambda: {"tool": name, "allow": effects(allow) if allow else None},
            options, state_dir, as_json=as_json, form=True,
        )
    )  # fmt: skip


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = (await client.request("GET", "/api/tools"))["tools"]
    if as_json:
        return json_out({"tools": found})
    lines = [one | {"about": _about(one)} for one in found]
    return table_out(lines, ("name", "version", "effect", "about"), otherwise="No tools.")


def _about(tool: dict[str, Any]) -> str:
    """The first paragraph of its description, or why it cannot be used here."""
    first = str(tool["about"]).partition("\n\n")[0]
    return f"Not available: {tool['unavailable']}" if tool["unavailable"] else first


async def _show(name: str, state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        tool = await client.request("GET", f"/api/tools/{segment(name)}")
    if as_json:
        return json_out(tool)
    out = console()
    out.print(Text(f"{tool['name']}, version {tool['version']}, effect {tool['effect']}"))
    out.print(Text(f"\n{tool['about']}\n"))
    if tool["unavailable"]:
        out.print(Text(f"Not available on this machine. {tool['unavailable']}\n"))
    for title, schema in (("input", tool["inputs"]), ("output", tool["outputs"])):
        table_out(_fields(schema, title), (title, "type", "about"), otherwise=f"No {title}.")
        out.print()
    return DONE


def _fields(schema: dict[str, Any], title: str) -> list[dict[str, Any]]:
    required = schema.get("required", []) if title == "input" else []
    return [
        {
            title: name,
            "type": " or ".join(kinds_of(field)) or "any",
            "about": ("Required. " if name in required else "") + field.get("description", ""),
        }
        for name, field in schema.get("properties", {}).items()
    ]
