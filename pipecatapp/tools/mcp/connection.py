"""Connection to one MCP server that is kept up: it is opened again when it ends."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import httpx2
import structlog
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    CallToolResult,
    GetPromptResult,
    ReadResourceResult,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from pipecatapp.records.secrets import SecretMissing, Secrets
from pipecatapp.tools.mcp.http import failure, reached, refusal
from pipecatapp.tools.mcp.life import Life, Streams
from pipecatapp.tools.mcp.lists import tools_of
from pipecatapp.tools.mcp.process import running
from pipecatapp.tools.mcp.references import Resolved, resolve
from pipecatapp.tools.mcp.servers import McpServer
from pipecatapp.workflow import ToolFailed

log = structlog.get_logger()

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before the next start, doubled from one to the next; a call does not wait for them."""
SETTLED: Final = 60.0
"""Seconds that a server has to run until its next start is a first one again."""
LOOK_SECONDS: Final = 60.0
"""Interval of reading the list of tools over HTTP: not every server can announce a change, and
nothing else notices that one has gone."""
BETWEEN_LOOKS: Final = 1.0
"""Seconds from one announced change to the reading of the next one."""
UNKNOWN_OUTCOME: Final = "It is unknown whether the call took effect."
SESSION_ENDED: Final = 404
"""The HTTP status for a session that the server does not know any more, in the eras that have
sessions."""
HTTP_ERROR: Final = "Server returned an error response"
"""The SDK's message for an HTTP status without an error of the protocol."""

T = TypeVar("T")


@dataclass(frozen=True)
class Up:
    """A server that answers, in its present process or connection."""

    client: Client
    life: Life


@dataclass(frozen=True)
class Offer:
    """The tools of a server, and whether it has resources and prompts."""

    tools: list[Tool]
    resources: bool
    prompts: bool


Learn = Callable[["Connection", Offer], None]
"""Callback with the offer of a server, each time it has started or its tools have changed."""


class SessionEndedError(Exception):
    """The server does not know the session any more; it has not processed the request."""


class Connection:
    """`keep()` runs as a task for as long as the server is wanted."""

    def __init__(self, name: str, server: McpServer, secrets: Secrets, tls: ssl.SSLContext) -> None:
        self.name, self.server = name, server
        self._secrets, self._tls = secrets, tls
        self.up: Up | None = None
        self.reason, self.since = "it is being started", datetime.now(UTC)
        self.tried = asyncio.Event()
        """Whether the last try to start it is over, well or not."""
        self._wanted = asyncio.Event()
        self._resolved = Resolved({})
        """The values of its entry at the last start."""

    async def keep(self, learn: Learn) -> None:
        """Start it, and start it again whenever it ends."""
        pause = FIRST_PAUSE
        while True:
            started = time.monotonic()
            await self._run(learn)
            if time.monotonic() - started > SETTLED:
                pause = FIRST_PAUSE
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call one of its tools; a server that is down is started first. Raises `ToolFailed`."""
        limit = self.server.call_seconds
        return await self.ask(
            lambda client: client.call_tool(tool, arguments, read_timeout_seconds=limit),
            unknown=f" {UNKNOWN_OUTCOME}",
        )

    async def read(self, uri: str) -> ReadResourceResult:
        """Read one of its resources. Raises `ToolFailed`."""
        return await self.ask(lambda client: client.read_resource(uri, cache_mode="refresh"))

    async def prompt(self, name: str, arguments: dict[str, str]) -> GetPromptResult:
        """Return one of its prompts. Raises `ToolFailed`."""
        return await self.ask(lambda client: client.get_prompt(name, arguments))

    async def ask(self, request: Callable[[Client], Awaitable[T]], *, unknown: str = "") -> T:
        """Make a request, twice if the server has forgotten the session: it does nothing then.

        `unknown` is added to the errors of a request that may have had an effect. Raises
        `ToolFailed`.
        """
        try:
            return await self._ask(request, unknown)
        except SessionEndedError:
            try:
                return await self._ask(request, unknown)
            except SessionEndedError as error:
                raise ToolFailed(f"The MCP server {self.name} does not keep a session.") from error

    def hide(self, value: T) -> T:
        """Return text, bytes or JSON of the server without the secrets of its entry."""
        return self._resolved.hide(value)

    async def _ask(self, request: Callable[[Client], Awaitable[T]], unknown: str) -> T:
        up, begun = await self._ready(), time.monotonic()
        try:
            async with asyncio.timeout(self.server.call_seconds):
                return await request(up.client)
        except TimeoutError as error:
            raise self._silent(up, begun, unknown) from error
        except MCPError as error:
            raise await self._refused(error, up, begun, unknown) from error
        except (ValidationError, RuntimeError) as error:
            # The SDK checks the answer against the tool's own output schema.
            fact = f"The MCP server {self.name} answered wrongly: {str(error)[:500]}"
            raise ToolFailed(self.hide(fact)) from error

    async def _refused(self, error: MCPError, up: Up, begun: float, unknown: str) -> Exception:
        """Return the error of a request that the server, or the SDK in its name, has refused."""
        if error.code == REQUEST_TIMEOUT:
            return self._silent(up, begun, unknown)
        if error.code == CONNECTION_CLOSED:
            return await self._ended(error, up, unknown)
        if up.life.refused == SESSION_ENDED and up.client.session.initialize_result is not None:
            up.life.end("it has ended the session")
            return SessionEndedError()
        message = error.message
        if message == HTTP_ERROR and up.life.refused:
            message = refusal(up.life.refused)
            up.life.end(message)
        return ToolFailed(self.hide(f"The MCP server {self.name} refused: {message}"))

    async def _ended(self, error: MCPError, up: Up, unknown: str) -> ToolFailed:
        """Return the error of a request whose connection, or stream over HTTP, has ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(up.life.over.wait(), None if up.life.pid else 1.0)
        stopped = "it was stopped" if up.life.over.is_set() else error.message
        fact = f"The MCP server {self.name} ended in the middle of the call"
        return ToolFailed(self.hide(f"{fact}: {up.life.why or stopped}.{unknown}"))

    def _silent(self, up: Up, begun: float, unknown: str) -> ToolFailed:
        """Return the error of a timeout; a server without output since the call is stopped and
        restarted."""
        fact = f"did not answer within {self.server.call_seconds:g} s"
        if up.life.heard < begun:
            up.life.end(f"it {fact}")
        return ToolFailed(f"The MCP server {self.name} {fact}.{unknown}")

    async def _ready(self) -> Up:
        """The server as it runs; one that has ended is started now, whatever its pause."""
        if self.up is not None and self.up.life.ending.is_set():
            self._lose()
        if self.up is None:
            self.tried.clear()
            self._wanted.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.tried.wait(), self.server.start_seconds)
        if self.up is None:
            raise ToolFailed(f"The MCP server {self.name} does not run: {self.reason}.")
        return self.up

    def _lose(self) -> None:
        self.up = None
        self.tried.clear()

    async def _run(self, learn: Learn) -> None:
        """One process or connection, from its start to its end."""
        life = Life()
        self._wanted.clear()
        self.tried.clear()
        try:
            self._resolved = self._resolve()
            await self._serve(life, learn)
            reason = life.why
        except* SecretMissing as errors:
            reason = f"a secret of its entry is missing: {_leaf(errors)}"
            self.tried.set()
        except* (OSError, MCPError, ValidationError, httpx2.HTTPError) as errors:
            reason = self._failure(_leaf(errors), life)
            self.tried.set()
        except* Exception as errors:
            reason = f"our part of it broke: {_leaf(errors)!r}"
            if reason != self.reason:
                log.exception("mcp_server_broke", server=self.name)
            self.tried.set()
        self._is_down(self.hide(reason))

    def _resolve(self) -> Resolved:
        """Return what is sent to the server with its secrets. Raises `SecretMissing`."""
        if self.server.url:
            values = {"": self.server.url, **self.server.headers}
            return resolve(values, self._secrets)
        return resolve(self.server.env, self._secrets)

    def _transport(self, life: Life) -> AbstractAsyncContextManager[Streams]:
        values = dict(self._resolved.values)
        if not self.server.url:
            return running(self.server, values, life)
        return reached(values.pop(""), values, life, self._tls)

    async def _serve(self, life: Life, learn: Learn) -> None:
        changed = asyncio.Event()

        async def on_message(message: IncomingMessage) -> None:
            if isinstance(message, ToolListChangedNotification):
                changed.set()

        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self.server.start_seconds):
                client = await stack.enter_async_context(
                    Client(
                        self._transport(life),
                        read_timeout_seconds=self.server.call_seconds,
                        message_handler=on_message,
                    )
                )
                offer = await _offer(client)
            learn(self, offer)
            stack.callback(self._lose)
            up = Up(client, life)
            self._is_up(up, offer)
            await stack.enter_async_context(_beside(self._listen(up, changed)))
            await stack.enter_async_context(_beside(self._follow(up, offer, changed, learn)))
            await life.ending.wait()

    async def _follow(self, up: Up, offer: Offer, changed: asyncio.Event, learn: Learn) -> None:
        """Read the tools again when the server announces a change, and over HTTP each minute."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), LOOK_SECONDS if self.server.url else None)
            changed.clear()
            try:
                now = await _offer(up.client)
            except MCPError as error:
                if self.server.url or error.code == CONNECTION_CLOSED:
                    up.life.end(self._failure(error, up.life))
                    return
                log.warning("mcp_tools_unread", server=self.name, reason=error.message[:300])
            else:
                if now != offer:
                    log.info("mcp_tools_changed", server=self.name, tools=len(now.tools))
                    learn(self, now)
                    offer = now
            await asyncio.sleep(BETWEEN_LOOKS)

    async def _listen(self, up: Up, changed: asyncio.Event) -> None:
        """Subscribe to changes of tools; a server of an earlier era announces them by itself."""
        tools = up.client.server_capabilities.tools
        while tools is not None and tools.list_changed:
            try:
                async with up.client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        changed.set()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                log.info("mcp_subscription_lost", server=self.name, reason=str(error)[:300])
            await asyncio.sleep(LONGEST_PAUSE)
            changed.set()

    def _failure(self, error: BaseException, life: Life) -> str:
        if isinstance(error, TimeoutError):
            return f"it was not ready within {self.server.start_seconds:g} s{life.last_words()}"
        if isinstance(error, httpx2.HTTPError):
            return life.why or failure(error)
        if isinstance(error, OSError) and not life.pid:
            return f"{self.server.command} cannot be started: {error.strerror}"
        if life.refused:
            return refusal(life.refused)
        return life.why or f"it does not speak MCP: {str(error)[:300]}"

    def _is_up(self, up: Up, offer: Offer) -> None:
        self.up, self.reason, self.since = up, "", datetime.now(UTC)
        log.info("mcp_server_up", server=self.name, pid=up.life.pid, tools=len(offer.tools))
        self.tried.set()

    def _is_down(self, reason: str) -> None:
        """Told once, not with each try."""
        if reason != self.reason:
            log.warning("mcp_server_down", server=self.name, reason=reason)
            self.since = datetime.now(UTC)
        self.reason = reason


async def _offer(client: Client) -> Offer:
    can = client.server_capabilities
    return Offer(
        await tools_of(client), resources=can.resources is not None, prompts=can.prompts is not None
    )


@asynccontextmanager
async def _beside(work: Awaitable[None]) -> AsyncIterator[None]:
    """Run `work` as a task while the block runs; if it fails, the block fails with its error."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_awaited(work))
        try:
            yield
        finally:
            task.cancel()


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _leaf(errors: BaseException) -> BaseException:
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    return errors
