"""An MCP server as a child process: lines of JSON on its stdin and stdout, bounded both ways.

The SDK's own transport accepts lines of any length and does not report how the process ended.
"""

import asyncio
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

from hearth.process.child import Child, StopOrder
from hearth.process.child import Streams as ChildStreams
from pipecatapp.tools.mcp.life import MAX_MESSAGE, Life, Streams
from pipecatapp.tools.mcp.servers import McpServer

KEPT_STDERR: Final = 2000
STOP: Final = StopOrder(stdin=2.0, term=2.0, term_group=True)
"""The protocol asks for closed input first. A server may be started by a wrapper."""


@asynccontextmanager
async def running(server: McpServer, env: Mapping[str, str], life: Life) -> AsyncIterator[Streams]:
    """The server's process while the block runs, as a transport of the SDK.

    `env` has the variables of its entry, with their secrets.

    Raises `OSError` where it cannot be started. In the end nothing of its group is left.
    """
    child = await Child.spawn(
        server.command,
        *server.args,
        streams=ChildStreams(stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=MAX_MESSAGE),
        env=get_default_environment() | dict(env),
        cwd=server.cwd,
    )
    process = child.process
    life.pid, life.heard = process.pid, time.monotonic()
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)
    pumps = [
        asyncio.create_task(pump)
        for pump in (_listen(process, heard, life), _speak(process, said), _keep(process, life))
    ]
    try:
        yield incoming, outgoing
    finally:
        try:
            with anyio.CancelScope(shield=True):
                await _finished(asyncio.create_task(_stop(child, life, pumps)))
        finally:
            for stream in (heard, incoming, outgoing, said):
                stream.close()


async def _finished(task: "asyncio.Task[None]") -> None:
    """Wait until the task is done; a cancellation meanwhile takes effect afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _listen(
    process: Process, heard: MemoryObjectSendStream[SessionMessage | Exception], life: Life
) -> None:
    assert process.stdout is not None
    try:
        with heard:
            while line := await process.stdout.readline():
                life.heard = time.monotonic()
                if line.strip():
                    await heard.send(_message(line))
    except ValueError:
        life.end(f"it wrote more than {MAX_MESSAGE} bytes in one message")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # nothing reads any more: it is being stopped
    finally:
        life.ending.set()
    # Unread output would prevent the process from ending, and us from seeing its end.
    while await process.stdout.read(65536):
        pass


def _message(line: bytes) -> SessionMessage | Exception:
    """Parse a line; a line that is not a message, such as a greeting, is returned as an error."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError as error:
        return error


async def _speak(process: Process, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):
        async for message in said:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _keep(process: Process, life: Life) -> None:
    """Store the end of its stderr, which may explain why it ended."""
    assert process.stderr is not None
    while part := await process.stderr.read(4096):
        life.stderr = (life.stderr + part)[-KEPT_STDERR:]


async def _stop(child: Child, life: Life, pumps: list["asyncio.Task[None]"]) -> None:
    """End the process and its group; store the reason if the stop was not requested."""
    by_itself = life.ending.is_set()
    ended_with = await child.stop(STOP)
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)
    if by_itself:
        life.end(f"it ended with {ended_with}{life.last_words()}")
    life.over.set()
