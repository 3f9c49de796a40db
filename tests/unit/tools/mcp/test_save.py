"""The tool `mcp.save`, with the resources of an instance as bytes."""

import asyncio
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.mcp.save import McpFiles, no_servers
from pipecatapp.workflow import Context, ToolFailed

SAVE = {"server": "wiki", "uri": "wiki://page", "path": "pages/one.md"}


async def page(server: str, uri: str) -> bytes:
    """A resource that says what was read."""
    return f"{server}: {uri}".encode()


async def test_resource_becomes_a_file_with_its_folders(tmp_path: Path) -> None:
    """What is read from a server is worked on as a file, and the former file is replaced."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "one.md").write_text("before")
    ctx = Context(workspace=tmp_path, services={McpFiles: McpFiles(page)})

    result = await TOOLS["mcp.save"].check(ctx, SAVE)

    assert (result["path"], result["size"], result["created"]) == ("pages/one.md", 17, False)
    assert (tmp_path / "pages" / "one.md").read_bytes() == b"wiki: wiki://page"
    assert ctx.facts.more == {"mcp_server": "wiki", "mcp_resource": "wiki://page"}


@pytest.mark.parametrize("path", ["../one.md", "/etc/one.md", ".git/config", "."])
def test_file_outside_of_the_workspace_is_not_written(tmp_path: Path, path: str) -> None:
    """The server's document may come from anybody; it must not become a program of the machine."""
    ctx = Context(workspace=tmp_path, services={McpFiles: McpFiles(page)})

    with pytest.raises(ToolFailed):
        asyncio.run(TOOLS["mcp.save"].check(ctx, {**SAVE, "path": path}))

    assert list(tmp_path.iterdir()) == []


async def test_instance_without_servers_says_where_they_are_set_up(tmp_path: Path) -> None:
    """A document from elsewhere names a server that is missing here."""
    ctx = Context(workspace=tmp_path, services={McpFiles: McpFiles(no_servers)})

    with pytest.raises(ToolFailed, match=r"no MCP server 'wiki': add it to mcp\.yaml"):
        await TOOLS["mcp.save"].check(ctx, SAVE)
