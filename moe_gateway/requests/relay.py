"""Relay: forward a server's answer to the caller, and count its tokens."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import orjson
import structlog

from hearth.openai_api.assemble import Assembler
from hearth.openai_api.errors import error_event
from hearth.openai_api.sse import DONE, EventTooLong, SseEvent, SseReader
from hearth.openai_api.usage import SeveralTap, StreamTap, TokenCount, count_of
from moe_gateway.endpoints import SPEECH
from moe_gateway.errors import key_refused, waits
from moe_gateway.http.connection import Connection, Lost, TimedOut, UpstreamError
from moe_gateway.http.headers import CALLER_HEADER, passed_back
from moe_gateway.requests.context import RequestContext
from moe_gateway.requests.embeddings import as_asked
from moe_gateway.requests.error_mapping import relayed
from moe_gateway.requests.forwarder import StreamForwarder
from moe_gateway.requests.reply import EARLY, EVENT_STREAM, PENDING, Reply
from moe_gateway.requests.usage import cost_of
from moe_gateway.routing.body import Look
from moe_gateway.routing.instances import Instance

log = structlog.get_logger()

MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
STREAMS_ONLY: Final = frozenset((b"cache-control", b"x-accel-buffering"))
"""Headers of a server's stream that do not apply to the answer assembled from it."""


async def relay(
    request: RequestContext, reply: Reply, instance: Instance, connection: Connection, idle: float
) -> TokenCount | None:
    """Forward the answer of this instance, and return its usage.

    `idle` limits the seconds between two chunks. Raises `Refused` or `UpstreamError` before
    anything was sent.
    """
    request.server = instance
    if connection.status == 401:
        log.error("instance_refuses_our_key", instance=instance.label)
        raise key_refused(instance.label)
    request.counted_inside = instance.settings.lists_models and connection.has(CALLER_HEADER)
    kind = connection.content_type
    if connection.status >= 400:
        return await _pass_whole(reply, connection, idle)
    if request.kind in SPEECH:
        await _pass_bytes(reply, connection, idle)
        return None
    if kind.startswith(b"text/event-stream"):
        passed = _pass_stream if request.look.stream else _pass_assembled
        return await passed(reply, connection, idle, request.look)
    # Official clients would read a document as a stream without a word.
    streams = request.look.stream is True and request.kind != "embeddings"
    if streams or (kind and not kind.startswith(b"application/json")):
        raise _no_answer(connection, streams=streams)
    finished = as_asked(request.body) if request.kind == "embeddings" else bytes
    return await _pass_whole(reply, connection, idle, finished)


async def _pass_whole(
    reply: Reply,
    connection: Connection,
    idle: float,
    finished: Callable[[bytes], bytes] = bytes,
) -> TokenCount | None:
    """Forward a complete answer or error, and return its usage. `finished` converts a complete
    answer for the caller.

    Sends nothing before the answer is complete, so another server can still be tried. Raises
    `Lost`, also if the answer is not a JSON object, or `TimedOut`.
    """
    data = await connection.body(idle, MAX_ANSWER_BYTES)
    usage, status, headers = None, connection.status, passed_back(connection)
    if status >= 400:
        status, data = relayed(status, data)
        headers += waits(connection.headers)
    else:
        try:
            usage = cost_of(data)
        except msgspec.DecodeError as error:
            raise _no_answer(connection) from error
        data = finished(data)
    await reply.whole(status, data, headers)
    return usage


def _no_answer(connection: Connection, *, streams: bool = False) -> Lost:
    """Return the error for a response that is not an answer: a page of another server, a
    truncated document, or a document although the caller requested a stream."""
    kind = connection.content_type.partition(b";")[0].decode("latin-1")[:50] or "no content type"
    wanted = "stream" if streams else "JSON object"
    return Lost(f"{connection.address.authority} did not send a {wanted} ({kind}).")


async def _pass_bytes(reply: Reply, connection: Connection, idle: float) -> None:
    """Forward a response of any type, such as audio or its transcript, as it arrives.

    Raises `UpstreamError` before the first byte. A later failure is sent as an event if the
    response has events; otherwise the caller's connection is closed without the end of the body, so
    that a partial recording is not mistaken for a complete one (uvicorn closes it).
    """
    has_events = connection.content_type.startswith(EVENT_STREAM)
    try:
        while data := await connection.piece(idle):
            await _begun(reply, connection)
            reply.binary = not has_events
            await reply.piece(data)
    except UpstreamError as error:
        if not reply.begun:
            raise
        _broken(reply, error)
        if has_events:
            await reply.end(error_event(str(error), type="server_error", code=error.code))
        reply.close()
        return
    await _begun(reply, connection)
    await reply.end()


async def _begun(reply: Reply, connection: Connection) -> None:
    """Mark the answer as begun: the headers of the server apply."""
    if reply.phase is PENDING:
        headers = passed_back(connection)
        await reply.start(connection.status, connection.content_type, headers)
    elif reply.phase is EARLY:
        headers = passed_back(connection)
        reply.facts += [one for one in headers if one[0].startswith(b"x-hearth-")]


async def _pass_stream(
    reply: Reply, connection: Connection, idle: float, look: Look
) -> TokenCount | None:
    """Forward a streamed answer, event by event, and return its usage.

    After the first event, a failure of the server is sent as the last event: clients would take a
    stream without it for a complete answer. Before it, raises `Lost` or `TimedOut`.
    """
    strip, shared = not look.wants_usage, look.several
    tap = SeveralTap(shared, strip=strip) if shared else StreamTap(strip=strip)
    reply.so_far = tap.tokens
    try:
        await reply.end(await _copy(reply, connection, idle, tap))
    except UpstreamError as error:
        if not reply.begun:
            raise
        _broken(reply, error)
        await reply.end(error_event(str(error), type="server_error", code=error.code))
    else:
        await connection.linger()
    return tap.usage


def _broken(reply: Reply, error: UpstreamError) -> None:
    """Log that an answer broke off. The caller has its status already; a failure is counted."""
    log.warning("answer_broken", request_id=reply.request_id.decode(), reason=str(error))
    reply.status = 504 if isinstance(error, TimedOut) else 502


async def _copy(reply: Reply, connection: Connection, idle: float, tap: StreamTap) -> bytes:
    """Forward events; the last ones are returned, to be sent in one packet with the end."""
    out = b""
    try:
        while not tap.done and (data := await connection.piece(idle)):
            out = tap.feed(data)
            if out and not reply.begun:
                await _begun(reply, connection)
            if out and not tap.done:
                await reply.piece(out)
                if (line := reply.open_line) is not None:
                    forwarder = StreamForwarder(line, tap)
                    await connection.pour(idle, forwarder)
                    out = forwarder.ended()
    except EventTooLong as error:
        raise Lost(str(error)) from error
    if tap.done:
        return out
    if not tap.failed:
        raise Lost(f"{connection.address.authority}: the answer ended before it was complete.")
    return b""


async def _pass_assembled(
    reply: Reply, connection: Connection, idle: float, look: Look
) -> TokenCount | None:
    """Assemble a streamed answer for a caller that requested a complete one; returns its usage.

    Raises `Lost` or `TimedOut`: nothing is sent before the end.
    """
    reader, whole, size = SseReader(), Assembler(look.several or 1), 0
    reply.so_far = whole.tokens
    while data := await connection.piece(idle):
        size += len(data)
        for event in _events(reader, data, size):
            if event.data == DONE:
                body = whole.completion()
                headers = [one for one in passed_back(connection) if one[0] not in STREAMS_ONLY]
                await reply.whole(200, orjson.dumps(body), headers)
                await connection.linger()
                return count_of(body.get("usage"))
            if event.data == "null":
                continue  # llama-server begins answers to several prompts with it.
            chunk = _chunk(event.data)
            if chunk.get("error"):
                await reply.whole(*relayed(_status(chunk), event.data.encode()), [])
                return None
            whole.add(chunk)
    raise Lost(f"{connection.address.authority}: the answer ended before it was complete.")


def _events(reader: SseReader, data: bytes, size: int) -> list[SseEvent]:
    if size > MAX_ANSWER_BYTES:
        raise Lost(f"The answer is larger than {MAX_ANSWER_BYTES} bytes.")
    try:
        return reader.feed(data)
    except EventTooLong as error:
        raise Lost(str(error)) from error


def _chunk(data: str) -> dict[str, Any]:
    try:
        chunk = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Lost("The server sent an event that is not valid JSON.") from error
    if not isinstance(chunk, dict):
        raise Lost("The server sent an event that is not a valid chunk.")
    return chunk


def _status(chunk: dict[str, Any]) -> int:
    """Return the HTTP status of an error in a stream; llama-server sends it as `code`."""
    error = chunk["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code <= 599 else 500
