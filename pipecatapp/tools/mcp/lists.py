"""The lists of an MCP server, page by page and bounded."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mcp import Client
from mcp.types import Prompt, Resource, ResourceTemplate, Tool

MAX_TOOLS: Final = 128
MAX_LISTED: Final = 500
"""Resources, templates or prompts of a server; more are not listed."""
MAX_PAGES: Final = 100
"""Also of empty pages, which a server may send without end."""

Page = Callable[..., Awaitable[Any]]


async def tools_of(client: Client) -> list[Tool]:
    """Return the tools; none for a server without tools."""
    if client.server_capabilities.tools is None:
        return []
    return await _all(client.list_tools, "tools", MAX_TOOLS)


async def resources_of(client: Client) -> list[Resource]:
    """Return the resources."""
    return await _all(client.list_resources, "resources", MAX_LISTED)


async def templates_of(client: Client) -> list[ResourceTemplate]:
    """Return the templates of resources."""
    return await _all(client.list_resource_templates, "resource_templates", MAX_LISTED)


async def prompts_of(client: Client) -> list[Prompt]:
    """Return the prompts."""
    return await _all(client.list_prompts, "prompts", MAX_LISTED)


async def _all(page_of: Page, name: str, most: int) -> list[Any]:
    """Return the entries of all pages, at most `most`; the SDK's cache is not used."""
    page = await page_of(cache_mode="refresh")
    found, pages = [*getattr(page, name)], 1
    while page.next_cursor is not None and len(found) < most and pages < MAX_PAGES:
        page = await page_of(cursor=page.next_cursor)
        found, pages = [*found, *getattr(page, name)], pages + 1
    return found[:most]
