"""An MCP server as people write them, on the official SDK; started by its path."""

import os
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("kitchen")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def degrees(oven: str, *, fahrenheit: bool = False) -> str:
    """Tell how hot an oven is."""
    return f"{oven}: {356 if fahrenheit else 180}, asked of process {os.getpid()}"


@server.tool(annotations=READS)
def recipe(name: str, servings: int = 2) -> dict[str, Any]:
    """Give a recipe as data."""
    return {"name": name, "flour_g": 125 * servings}


@server.tool()
def order(what: str) -> str:
    """Order groceries."""
    with Path(os.environ["ORDERS"]).open("a", encoding="utf-8") as book:
        book.write(f"{what}\n")
    return "ordered"


@server.tool(annotations=READS)
def everything() -> str:
    """Tell more than anybody can read."""
    return "beginning " + "x" * 300_000 + " end"


@server.tool(annotations=READS)
def surroundings() -> list[str]:
    """Name what the process can see of its environment."""
    return sorted(os.environ)


@server.tool(annotations=READS)
def burn() -> str:
    """Fail."""
    raise ValueError("the oven is on fire")


if __name__ == "__main__":
    server.run("stdio")
