"""The tool `mcp.save`: save a resource of an MCP server as a file of the workspace."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.tools.files.write import Written, write_bytes
from pipecatapp.workflow import Context, ToolFailed, tool


@dataclass(frozen=True)
class McpFiles:
    """The resources of the instance's MCP servers as bytes."""

    read: Callable[[str, str], Awaitable[bytes]]
    """Called with the name of a server and a URI. Raises `ToolFailed`."""


async def no_servers(server: str, uri: str) -> bytes:
    """`McpFiles.read` of an instance without servers."""
    raise ToolFailed(f"There is no MCP server {server!r}: add it to mcp.yaml. {uri!r} is not read.")


@tool("mcp.save", effect="workspace", version=1)
async def save(
    ctx: Context,
    server: Annotated[str, Field(description="The name of the MCP server.", min_length=1)],
    uri: Annotated[str, Field(description="The URI of the resource.", min_length=1)],
    path: Annotated[
        str, Field(description="In the workspace; missing folders are made.", min_length=1)
    ],
) -> Written:
    """Save a resource of an MCP server as a file of the workspace, replacing an existing one."""
    root = workspace(ctx)
    place = inside(root, path)
    ctx.record(mcp_server=server, mcp_resource=uri)
    data = await ctx.service(McpFiles).read(server, uri)
    return await asyncio.to_thread(write_bytes, root, place, data)
