"""The protocol's Streamable HTTP transport behind our keys.

Specification: https://modelcontextprotocol.io/specification (Transports, "Streamable HTTP").
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hearth.service.http_errors import Refused
from pipecatapp.api.access import access_of
from pipecatapp.api.mcp.callers import SCOPES, Callers
from pipecatapp.api.parts import Parts, parts_of

if TYPE_CHECKING:
    from pipecatapp.api.mcp.sessions import Sessions

PATH: Final = "/mcp"
METADATA: Final = f"/.well-known/oauth-protected-resource{PATH}"


class McpEndpoint:
    """An ASGI application. It offers no separate stream to clients (GET): the specification makes
    that optional, and this server sends no unrequested messages.

    The SDK takes a second to import, so it is imported at the first request.
    """

    def __init__(
        self, *, max_body_bytes: int, callers: Callers, public_origin: str | None = None
    ) -> None:
        """`public_origin` is the address of a proxy before this service."""
        self._max_body_bytes, self._callers = max_body_bytes, callers
        self._public_origin = public_origin
        self._manager: asyncio.Future[Sessions] | None = None
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
        try:
            caller = await self._callers.caller_of(request)
        except Refused as refused:
            if refused.status == 401:
                refused.headers = {"www-authenticate": self._challenge(request)}
            await refused.response()(scope, receive, send)
            return
        if self._manager is None:
            self._manager = asyncio.get_running_loop().create_future()
            secret = access_of(request).derived(b"mcp request state")
            self._host = asyncio.create_task(self._run(parts_of(request), secret, self._manager))
        sessions = await asyncio.shield(self._manager)
        await sessions.handle(caller, scope, receive, send)

    async def metadata(self, request: Request) -> JSONResponse:
        """Describe this server to clients (OAuth 2.0 Protected Resource Metadata, RFC 9728).

        It names no authorization server: keys are created with `hearth keys add`.
        """
        return JSONResponse(
            {
                "resource": f"{self._origin(request)}{PATH}",
                "resource_name": "Hearth",
                "bearer_methods_supported": ["header"],
                "scopes_supported": list(SCOPES),
            }
        )

    def _origin(self, request: Request) -> str:
        return self._public_origin or f"{request.url.scheme}://{request.url.netloc}"

    def _challenge(self, request: Request) -> str:
        """The `WWW-Authenticate` header of a 401 (RFC 9728, section 5.1)."""
        error = ', error="invalid_token"' if "authorization" in request.headers else ""
        return (
            f'Bearer realm="hearth"{error}, resource_metadata="{self._origin(request)}{METADATA}"'
        )

    async def _run(self, parts: Parts, secret: bytes, opened: "asyncio.Future[Sessions]") -> None:
        try:
            module = await asyncio.to_thread(import_module, "pipecatapp.api.mcp.sessions")
            sessions = module.Sessions(parts, secret, max_body_bytes=self._max_body_bytes)
            async with sessions.run():
                opened.set_result(sessions)
                await asyncio.Event().wait()
        except Exception as error:
            if not opened.done():
                opened.set_exception(error)
            raise
        finally:
            self._manager = None


def mcp_routes(endpoint: McpEndpoint) -> list[Route]:
    """Where clients find it, and its metadata: both paths of RFC 9728 are in use."""
    paths = (METADATA, METADATA.removesuffix(PATH))
    return [
        Route(PATH, endpoint, methods=["POST", "DELETE"], include_in_schema=False),
        *(Route(path, endpoint.metadata, include_in_schema=False) for path in paths),
    ]
