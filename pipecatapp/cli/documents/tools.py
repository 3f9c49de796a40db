"""`hearth tools`: what nodes can use."""

from pathlib import Path
from typing import Any

from pipecatapp.cli.documents.output import json_out, table_out
from pipecatapp.cli.exit_codes import finish
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.client import connect


def list_tools(state_dir: StateOption = None, *, as_json: JsonOption = False) -> None:
    """List the tools for workflow nodes with their effects. --json adds their schemas."""
    finish(_list(state_dir, as_json=as_json))


async def _list(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        found = (await client.request("GET", "/api/tools"))["tools"]
    if as_json:
        return json_out({"tools": found})
    lines = [one | {"about": _about(one)} for one in found]
    return table_out(lines, ("name", "version", "effect", "about"), otherwise="No tools.")


def _about(tool: dict[str, Any]) -> str:
    """The first line of its description, or why it cannot be used here."""
    first = str(tool["about"]).partition("\n")[0]
    return f"Not available: {tool['unavailable']}" if tool["unavailable"] else first
