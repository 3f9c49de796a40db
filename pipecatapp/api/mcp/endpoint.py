"""The protocol's Streamable HTTP transport behind our keys.

Specification: https://modelcontextprotocol.io/specification (Transports, "Streamable HTTP").
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pipecatapp.api.access import access_of, known_caller
from pipecatapp.api.parts import Parts, parts_of

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH: Final = "/mcp"


class McpEndpoint:
    """An ASGI application. It offers no separate stream to clients (GET): the specification makes
    that optional, and this server sends no unrequested messages.

    The SDK takes a second to import, so it is imported at the first request.
    """

    def __init__(self, *, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._host: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Sessions that were opened inside the block end with it."""
        try:
            yield
        finally:
            if self._host is not None:
                self._host.cancel()
                await asyncio.gather(self._host, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        known_caller(request, access_of(request))
        if self._manager is None:
            self._manager = asyncio.get_running_loop().create_future()
            self._host = asyncio.create_task(self._run(parts_of(request), self._manager))
        manager = await asyncio.shield(self._manager)
        await manager.handle_request(scope, receive, send)

    async def _run(
        self, parts: Parts, told: "asyncio.Future[StreamableHTTPSessionManager]"
    ) -> None:
        try:
            sessions = await asyncio.to_thread(import_module, "pipecatapp.api.mcp.sessions")
            manager = sessions.sessions_of(parts, max_body_bytes=self._max_body_bytes)
            async with manager.run():
                told.set_result(manager)
                await asyncio.Event().wait()
        except Exception as error:
            if not told.done():
                told.set_exception(error)
            raise
        finally:
            self._manager = None


def mcp_route(endpoint: McpEndpoint) -> Route:
    """Where clients find it."""
    return Route(PATH, endpoint, methods=["POST", "DELETE"], include_in_schema=False)
