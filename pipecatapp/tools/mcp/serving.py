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
from pipecatapp.tools.mcp.offered import Critical, as_ours, unused_patterns
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

    def __init__(
        self,
        configured: Configured,
        secrets: Secrets,
        tls: ssl.SSLContext,
        critical: Critical = lambda _server, _given: False,
    ) -> None:
        """`tls` trusts the certificates of servers over HTTP; see `Critical`."""
        self._critical = critical
        self._secrets, self._tls = secrets, tls
        self._started = datetime.now(UTC)
        self._warnings = dict[str, str]()
        self._tools = dict[str, set[str]]()
        self._keepers = dict[str, asyncio.Task[None]]()
        self._learn: Learn | None = None
        self.connections = dict[str, Connection]()
        self._file, self._wrong = configured.file, configured.wrong
        self._add(configured)

    @asynccontextmanager
    async def running(self, learn: Learn) -> AsyncIterator[None]:
        """Keep the servers running during the block; `learn` is called with the tools of each."""
        self._learn = learn
        self._keep()
        try:
            await self._tried(self.connections)
            yield
        finally:
            await self._stop([*self._keepers])

    async def configure(self, configured: Configured) -> None:
        """Stop the servers whose entry has changed or is gone, and start those that are new.

        Call it while they are `running`; it returns when each new one was tried.
        """
        assert self._learn is not None
        gone = [
            name
            for name, one in self.connections.items()
            if configured.servers.get(name) != one.server
        ]
        await self._stop(gone)
        for name in gone:
            del self.connections[name]
            self._learn([], self._tools.pop(name))
            self._warnings.pop(name, None)
        self._file, self._wrong = configured.file, configured.wrong
        before = set(self.connections)
        self._add(configured)
        self._keep()
        await self._tried(self.connections.keys() - before)

    def _add(self, configured: Configured) -> None:
        for name, server in configured.servers.items():
            if name not in self.connections:
                self.connections[name] = Connection(name, server, self._secrets, self._tls)
                self._tools[name] = set()
        for name, reason in configured.wrong.items():
            log.warning("mcp_server_left_out", server=name, reason=reason)

    def _keep(self) -> None:
        for name in self.connections.keys() - self._keepers.keys():
            keeping = self.connections[name].keep(self._learned)
            self._keepers[name] = asyncio.create_task(keeping)

    async def _stop(self, names: list[str]) -> None:
        stopped = [self._keepers.pop(name) for name in names]
        for keeper in stopped:
            keeper.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)

    async def _tried(self, names: Iterable[str]) -> None:
        tried = asyncio.gather(*(self.connections[name].tried.wait() for name in names))
        with suppress(TimeoutError):
            await asyncio.wait_for(tried, START_PATIENCE)

    def _learned(self, connection: Connection, offer: Offer) -> None:
        assert self._learn is not None
        name, approve = connection.name, connection.server.approve
        ours = [tool for one in offer.tools if (tool := as_ours(connection, one, self._critical))]
        ours += tools_beside(connection, offer)
        now = {tool.name for tool in ours}
        self._learn(ours, self._tools[name] - now)
        self._tools[name] = now
        self._check_patterns(name, unused_patterns(approve, offer.tools))

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
