"""Names of tools, and patterns of names such as `file.*` and `mcp/*`."""

import re
from typing import Final

PATTERN_ENDS: Final = (".*", "/*")
"""How a pattern ends: it matches all names that begin with the rest, with the `.` or `/`."""
_FORMER: Final = re.compile(r"mcp\.(?:\*|[a-z][a-z0-9-]*\.(?:\*|[a-z0-9_-]+))")
"""Up to version 0.1, a tool of an MCP server was `mcp.<server>.<tool>`."""


def current_name(name: str) -> str:
    """Return the name as it is now: `mcp.oven.heat` is `mcp/oven/heat`, and `mcp.*` is `mcp/*`.

    Documents and unfinished runs contain names of earlier versions; all other names are unchanged.
    """
    return name.replace(".", "/") if _FORMER.fullmatch(name) else name


def is_pattern(name: str) -> bool:
    """Return whether an agent's tool is a pattern."""
    return name.endswith(PATTERN_ENDS)


def matches(name: str, tool: str) -> bool:
    """Return whether a name or pattern, also of an earlier version, means the tool `tool`."""
    now = current_name(name)
    return tool.startswith(now[:-1]) if is_pattern(now) else tool == now
