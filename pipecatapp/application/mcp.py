"""The MCP servers of an instance, which follow the file of servers while the service runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any, Protocol

from hearth.service.settings import trusting
from pipecatapp.records.secrets import Secrets
from pipecatapp.settings import Settings
from pipecatapp.tools.cluster.places import ServiceHealth
from pipecatapp.tools.mcp.save import no_servers
from pipecatapp.tools.mcp.servers import Configured, read_servers, write_server
from pipecatapp.workflow import Tool

Learn = Callable[[Iterable[Tool], Iterable[str]], None]


class McpServers(Protocol):
    """The servers of a file; see `pipecatapp.tools.mcp.serving`."""

    def running(self, learn: Learn) -> AbstractAsyncContextManager[None]: ...

    async def configure(self, configured: Configured) -> None: ...

    async def read(self, server: str, uri: str) -> bytes: ...

    def health(self) -> list[ServiceHealth]: ...


class McpService:
    """The servers of the file `mcp.yaml`.

    Their SDK takes a second to import, so it is imported only if there is a server.
    """

    def __init__(self, settings: Settings, secrets: Secrets) -> None:
        self._settings, self._secrets = settings, secrets
        self._servers: McpServers | None = None
        self._stack = AsyncExitStack()
        self._learn: Learn | None = None
        self._changing = asyncio.Lock()
        self.critical: Callable[[str, Mapping[str, Any]], bool] = lambda _server, _given: False
        """Whether a call of a server's tool with this input is critical; the home sets it."""

    @asynccontextmanager
    async def running(self, learn: Learn) -> AsyncIterator[None]:
        """Keep the servers running during the block; `learn` is called with the tools of each."""
        self._learn = learn
        async with self._stack:
            await self._follow()
            yield

    def health(self) -> list[ServiceHealth]:
        """Each server as a row of the status."""
        return self._servers.health() if self._servers is not None else []

    async def read(self, server: str, uri: str) -> bytes:
        """Return a resource of a server. Raises `ToolFailed`."""
        return await (self._servers.read if self._servers is not None else no_servers)(server, uri)

    def entry(self, name: str) -> bool:
        """Whether the file has an entry of this name, valid or not."""
        configured = read_servers(self._settings.mcp_path, disabled=True)
        return name in configured.servers or name in configured.wrong

    async def change(self, name: str, entry: dict[str, Any] | None) -> ServiceHealth | None:
        """Write an entry of the file, or remove it (None), and start or stop its server.

        Returns how the server is; None if there is none of that name now. Raises `ValueError` for
        a file that cannot be changed.
        """
        async with self._changing:
            write_server(self._settings.mcp_path, name, entry)
            await self._follow()
        return next((row for row in self.health() if row.name == f"mcp/{name}"), None)

    async def _follow(self) -> None:
        configured = read_servers(self._settings.mcp_path)
        if self._servers is not None:
            await self._servers.configure(configured)
        elif configured.servers or configured.wrong:
            assert self._learn is not None
            serving = import_module("pipecatapp.tools.mcp.serving")
            tls = trusting(self._settings.tls_ca_file)
            servers: McpServers = serving.Servers(
                configured, self._secrets, tls, lambda server, given: self.critical(server, given)
            )
            self._servers = servers
            await self._stack.enter_async_context(servers.running(self._learn))
