"""An MCP server with the tools of a home: a lamp, and a lock with a German name.

It writes each action as a line into the file `ACTIONS`. It has the names and the answers of Home
Assistant's own server, which the tests of the extended ring use.
"""

import os
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("home")
DEVICES = """\
Live Context: An overview of the areas and the devices in this smart home:
- names: Küchenlampe, Kitchen Lamp
  domain: light
  state: 'off'
  areas: Küche
- names: Haustür
  domain: lock
  state: locked
"""


@server.tool(name="homeassistant__GetLiveContext", annotations=ToolAnnotations(read_only_hint=True))
def live_context() -> dict[str, Any]:
    """Return the devices."""
    return {"result": DEVICES}


@server.tool(name="intent__HassTurnOn")
def turn_on(
    name: str = "",
    area: str = "",
    domain: list[str] = [],  # noqa: B006
    device_class: list[str] = [],  # noqa: B006
) -> str:
    """Turn devices on."""
    return _act("on", name or area, domain)


@server.tool(name="intent__HassTurnOff")
def turn_off(name: str = "", area: str = "", domain: list[str] = []) -> str:  # noqa: B006
    """Turn devices off."""
    return _act("off", name or area, domain)


def _act(action: str, what: str, domain: list[str]) -> str:
    with Path(os.environ["ACTIONS"]).open("a", encoding="utf-8") as file:
        file.write(f"{action} {what} {','.join(domain)}\n")
    return "done"


server.run("stdio")
