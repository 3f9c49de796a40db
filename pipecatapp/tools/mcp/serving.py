"""The MCP servers of an instance, all together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import structlog
from mcp.types import Tool as McpTool

from pipecatapp.tools.cluster.places import ServiceHealth
from pipecatapp.tools.mcp.connection import Connection
from pipecatapp.tools.mcp.offered import as_ours, unused_patterns
from pipecatapp.tools.mcp.servers import Configured
from pipecatapp.workflow import Tool

log = structlog.get_logger()

START_PATIENCE: Final = 10.0
"""Seconds that the instance waits for them before it serves; one that is later adds its tools."""


class Servers:
    """Their connections by name."""

    def __init__(self, configured: Configured) -> None:
        self._wrong, self._started = configured.wrong, datetime.now(UTC)
        self._file, self._warnings = configured.file, dict[str, str]()
        self.connections = {
            name: Connection(name, server) for name, server in configured.servers.items()
        }
        for name, reason in configured.wrong.items():
            log.warning("mcp_server_left_out", server=name, reason=reason)

    @asynccontextmanager
    async def running(self, learn: Callable[[Iterable[Tool]], None]) -> AsyncIterator[None]:
        """Keep the servers running during the block; `learn` is called with the tools of each."""

        def learned(connection: Connection, offered: list[McpTool]) -> None:
            name, approve = connection.name, connection.server.approve
            ours = [as_ours(name, tool, connection.call, approve) for tool in offered]
            learn([tool for tool in ours if tool is not None])
            self._check_patterns(name, unused_patterns(approve, offered))

        keepers = [asyncio.create_task(one.keep(learned)) for one in self.connections.values()]
        tried = asyncio.gather(*(one.tried.wait() for one in self.connections.values()))
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(tried, START_PATIENCE)
            yield
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)

    def _check_patterns(self, name: str, unused: list[str]) -> None:
        """Note the patterns of `approve` without a tool: a misspelt one protects nothing."""
        fields = ", ".join(f"approve.{pattern}" for pattern in unused)
        reason = f"{self._file}: {fields}: no tool of this server has such a name" if unused else ""
        if reason and reason != self._warnings.get(name):
            log.warning("mcp_approve_without_tool", server=name, reason=reason)
        self._warnings[name] = reason

    def health(self) -> list[ServiceHealth]:
        """Each as a row of the status: whether it runs, why not, what of its entry is unused."""
        rows = [
            _row(
                name,
                one.since,
                one.reason,
                url=f"stdio:{one.server.command}",
                warning=self._warnings.get(name, ""),
            )
            for name, one in self.connections.items()
        ]
        return rows + [_row(name, self._started, why) for name, why in self._wrong.items()]


def _row(
    name: str, since: datetime, reason: str, *, url: str = "", warning: str = ""
) -> ServiceHealth:
    return ServiceHealth(
        name=f"mcp/{name}".rstrip("/"),
        url=url,
        machine="",
        healthy=not reason,
        since=since,
        detail=reason or warning,
    )
