"""Connection to one MCP server that is kept running: it is restarted when it ends."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolResult, Tool
from pydantic import ValidationError

from pipecatapp.tools.mcp.process import Life, running
from pipecatapp.tools.mcp.servers import McpServer
from pipecatapp.workflow import ToolFailed

log = structlog.get_logger()

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before the next start, doubled from one to the next; a call does not wait for them."""
SETTLED: Final = 60.0
"""Seconds that a server has to run until its next start is a first one again."""
PATIENCE: Final = 10.0
"""Seconds for each answer while it is being started: not every server knows every question."""
MAX_TOOLS: Final = 128
UNKNOWN_OUTCOME: Final = "It is unknown whether the call took effect."


@dataclass(frozen=True)
class Up:
    """A server that answers, in its present process."""

    client: Client
    life: Life


Learn = Callable[["Connection", list[Tool]], None]
"""Callback with the tools of a server, each time it has started."""


class Connection:
    """`keep()` runs as a task for as long as the server is wanted."""

    def __init__(self, name: str, server: McpServer) -> None:
        self.name, self.server = name, server
        self.up: Up | None = None
        self.reason, self.since = "it is being started", datetime.now(UTC)
        self.tried = asyncio.Event()
        """Whether the last try to start it is over, well or not."""
        self._wanted = asyncio.Event()

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
        up, begun, limit = await self._ready(), time.monotonic(), self.server.call_seconds
        try:
            async with asyncio.timeout(limit):
                return await up.client.call_tool(tool, arguments, read_timeout_seconds=limit)
        except TimeoutError as error:
            raise self._silent(up, begun) from error
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise self._silent(up, begun) from error
            if error.code == CONNECTION_CLOSED:
                await up.life.over.wait()
                why = up.life.why or "it was stopped"
                fact = f"The MCP server {self.name} ended in the middle of the call: {why}"
                raise ToolFailed(f"{fact}. {UNKNOWN_OUTCOME}") from error
            raise ToolFailed(f"The MCP server {self.name} refused: {error.message}") from error
        except (ValidationError, RuntimeError) as error:
            # The SDK checks the answer against the tool's own output schema.
            fact = f"The MCP server {self.name} answered wrongly: {str(error)[:500]}"
            raise ToolFailed(fact) from error

    def _silent(self, up: Up, begun: float) -> ToolFailed:
        """Return the error of a timeout; a server without output since the call is stopped and
        restarted."""
        fact = f"did not answer within {self.server.call_seconds:g} s"
        if up.life.heard < begun:
            up.life.end(f"it {fact}")
        return ToolFailed(f"The MCP server {self.name} {fact}. {UNKNOWN_OUTCOME}")

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
        """One process, from its start to its end."""
        life = Life()
        self._wanted.clear()
        self.tried.clear()
        try:
            await self._serve(life, learn)
            reason = life.why
        except* (OSError, MCPError, ValidationError) as errors:
            reason = self._failure(_leaf(errors), life)
            self.tried.set()
        except* Exception as errors:
            reason = f"our part of it broke: {_leaf(errors)!r}"
            if reason != self.reason:
                log.exception("mcp_server_broke", server=self.name)
            self.tried.set()
        self._is_down(reason)

    async def _serve(self, life: Life, learn: Learn) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self.server.start_seconds):
                client = await stack.enter_async_context(
                    Client(running(self.server, life), read_timeout_seconds=PATIENCE)
                )
                tools = await _tools(client)
            learn(self, tools)
            stack.callback(self._lose)
            self._is_up(Up(client, life), tools)
            await life.ending.wait()

    def _failure(self, error: BaseException, life: Life) -> str:
        if isinstance(error, TimeoutError):
            return f"it was not ready within {self.server.start_seconds:g} s{life.last_words()}"
        if isinstance(error, OSError) and not life.pid:
            return f"{self.server.command} cannot be started: {error.strerror}"
        return life.why or f"it does not speak MCP: {str(error)[:300]}"

    def _is_up(self, up: Up, tools: list[Tool]) -> None:
        self.up, self.reason, self.since = up, "", datetime.now(UTC)
        log.info("mcp_server_up", server=self.name, pid=up.life.pid, tools=len(tools))
        self.tried.set()

    def _is_down(self, reason: str) -> None:
        """Told once, not with each try."""
        if reason != self.reason:
            log.warning("mcp_server_down", server=self.name, reason=reason)
            self.since = datetime.now(UTC)
        self.reason = reason


async def _tools(client: Client) -> list[Tool]:
    """All that it offers, page by page, at most `MAX_TOOLS`."""
    page = await client.list_tools()
    tools = [*page.tools]
    while page.next_cursor is not None and len(tools) < MAX_TOOLS:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools[:MAX_TOOLS]


def _leaf(errors: BaseException) -> BaseException:
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    return errors
