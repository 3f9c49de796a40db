"""The sessions of MCP clients, and the server that they talk to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from starlette.types import Receive, Scope, Send

from hearth.service.version import hearth_version
from pipecatapp.api.mcp import texts
from pipecatapp.api.mcp.callers import McpCaller
from pipecatapp.api.mcp.calls import Calls
from pipecatapp.api.mcp.offered import tools_for
from pipecatapp.api.parts import Parts

Ctx = ServerRequestContext[Any, Any]
Page = PaginatedRequestParams | None

NAME: Final = "hearth"
MOST_SESSIONS: Final = 1000
"""Each session uses 40 kB. A client that opens a session for each call and closes none must not
block other clients for the half hour until its sessions are idle.
"""
IDLE_SECONDS: Final = 1800.0
STATE_SECONDS: Final = 24 * 3600.0
"""How long a client may take to answer a question; for other answers the run waits longer."""
CALLER: Final = "mcp_caller"
"""Where the state of a request has its `McpCaller`."""
HOUSE_NAME: Final = "hearth instance key"


class Sessions:
    """The sessions of all clients; a session ends after half an hour without a request.

    `secret` protects the state of questions, which clients keep and send back.
    """

    def __init__(self, parts: Parts, secret: bytes, *, max_body_bytes: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            server_of(parts, secret),
            max_request_body_size=max_body_bytes,
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MOST_SESSIONS,
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve inside the block."""
        async with self._manager.run():
            yield

    async def handle(self, caller: McpCaller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A session belongs to the key that has opened it."""
        token = AccessToken(token="", client_id=_principal(caller), scopes=[*caller.scopes])
        scope["user"] = AuthenticatedUser(token)
        scope.setdefault("state", {})[CALLER] = caller
        # A value ends before its blanks (RFC 9110, section 5.5); the SDK compares it with the body.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self._manager.handle_request(scope, receive, send)


def server_of(parts: Parts, secret: bytes) -> Server[Any]:
    """Return the server: tools, notes and prompts, as far as the key of a request permits."""
    calls = Calls(parts)

    async def list_tools(ctx: Ctx, params: Page) -> ListToolsResult:
        return ListToolsResult(tools=tools_for(parts, _caller(ctx)))

    async def call_tool(
        ctx: Ctx, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        return await calls.call(ctx, _caller(ctx), params)

    async def list_resources(ctx: Ctx, params: Page) -> ListResourcesResult:
        return ListResourcesResult(resources=texts.notes_of(parts, _caller(ctx)))

    async def list_templates(ctx: Ctx, params: Page) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[texts.TEMPLATE])

    async def read_resource(ctx: Ctx, params: ReadResourceRequestParams) -> ReadResourceResult:
        return texts.note_at(parts, _caller(ctx), str(params.uri))

    async def list_prompts(ctx: Ctx, params: Page) -> ListPromptsResult:
        return ListPromptsResult(prompts=texts.prompts_of(parts))

    async def get_prompt(ctx: Ctx, params: GetPromptRequestParams) -> GetPromptResult:
        return texts.prompt_of(parts, params.name, params.arguments or {})

    server: Server[Any] = Server(
        NAME,
        version=hearth_version(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    security = RequestStateSecurity(
        keys=[secret], ttl=STATE_SECONDS, bind_principal=lambda ctx: _principal(_caller(ctx))
    )
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


def _caller(ctx: Ctx) -> McpCaller:
    caller = getattr(ctx.request.state, CALLER) if ctx.request is not None else None
    assert isinstance(caller, McpCaller)
    return caller


def _principal(caller: McpCaller) -> str:
    return caller.name or HOUSE_NAME
