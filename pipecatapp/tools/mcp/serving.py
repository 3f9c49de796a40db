"""The MCP servers of an instance, all together."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import structlog

from pipecatapp.records.secrets import Secrets
from pipecatapp.tools.cluster.places import ServiceHealth
from pipecatapp.tools.mcp.connection import Connection, Offer
from pipecatapp.tools.mcp.offered import as_ours, unused_patterns
from pipecatapp.tools.mcp.resources import contents_of, tools_beside
from pipecatapp.tools.mcp.servers import Configured
from pipecatapp.workflow import Tool, ToolFailed

Learn = Callable[[Iterable[Tool], Iterable[str]], None]
"""Callback with the tools of a server, and the names of those that it has no more."""

log = structlog.get_logger()

START_PATIENCE: Final = 10.0
"""Seconds that the instance waits for them before it serves; one that is later adds its tools."""


class Servers:
    """Their connections by name."""

    def __init__(self, configured: Configured, secrets: Secrets, tls: ssl.SSLContext) -> None:
        """`tls` trusts the certificates of servers over HTTP."""
        self._wrong, self._started = configured.wrong, datetime.now(UTC)
        self._file, self._warnings = configured.file, dict[str, str]()
        self.connections = {
            name: Connection(name, server, secrets, tls)
            for name, server in configured.servers.items()
        }
        self._tools = {name: set[str]() for name in self.connections}
        for name, reason in configured.wrong.items():
            log.warning("mcp_server_left_out", server=name, reason=reason)

    @asynccontextmanager
    async def running(self, learn: Learn) -> AsyncIterator[None]:
        """Keep the servers running during the block; `learn` is called with the tools of each."""

        def learned(connection: Connection, offer: Offer) -> None:
            name, approve = connection.name, connection.server.approve
            ours = [tool for one in offer.tools if (tool := as_ours(connection, one))]
            ours += tools_beside(connection, offer)
            now = {tool.name for tool in ours}
            learn(ours, self._tools[name] - now)
            self._tools[name] = now
            self._check_patterns(name, unused_patterns(approve, offer.tools))

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

    async def read(self, server: str, uri: str) -> bytes:
        """Return a resource of a server as bytes, all its parts joined. Raises `ToolFailed`."""
        connection = self.connections.get(server)
        if connection is None:
            known = ", ".join(self.connections) or "none"
            raise ToolFailed(f"There is no MCP server {server!r}. Known: {known}.")
        parts = contents_of(server, uri, await connection.read(uri))
        if not parts:
            raise ToolFailed(f"The resource {uri!r} of the MCP server {server} is empty.")
        return connection.hide(b"".join(data for _, data in parts))

    def health(self) -> list[ServiceHealth]:
        """Each as a row of the status: whether it runs, why not, what of its entry is unused."""
        rows = [
            _row(
                name,
                one.since,
                one.reason,
                url=one.server.shown_url,
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
