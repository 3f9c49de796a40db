"""The caller's side of one request: what goes out, and passing a server's answer on."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
import orjson
import structlog
from starlette.types import Message, Receive, Send

from hearth.openai_api.assemble import Assembler
from hearth.openai_api.errors import error_event
from hearth.openai_api.sse import DONE, EventTooLong, SseEvent, SseReader
from hearth.openai_api.usage import SeveralTap, StreamTap, TokenCount, count_of
from hearth.service.http_errors import Refused, limited
from moe_gateway.errors import Headers, too_large, waits
from moe_gateway.http.connection import Connection, Lost, TimedOut, UpstreamError
from moe_gateway.http.headers import passed_back
from moe_gateway.http.server import Line
from moe_gateway.requests.error_mapping import relayed
from moe_gateway.requests.forwarder import Pouring
from moe_gateway.requests.usage import cost_of
from moe_gateway.routing.body import Look

log = structlog.get_logger()

MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream"
WAITING: Final = b": waiting\n\n"
EXPERT: Final = b"x-hearth-expert"
ROUTE: Final = b"x-hearth-route"
BY_ITSELF: Final = ((EXPERT, b"none"), (ROUTE, b"answered by the gateway itself"))
UNDECIDED: Final = [(EXPERT, b"none"), (ROUTE, b"being decided")]

TRACEPARENT: Final = b"traceparent"

STREAMS_ONLY: Final = frozenset((b"cache-control", b"x-accel-buffering"))
"""Headers of a server's stream that do not apply to the answer assembled from it."""


class CallerGone(Exception):
    """The client disconnected before the request was complete, so no response is possible."""


class Reply:
    """The response to one caller: headers once, then the body. It always has the request's id."""

    first_byte_at = 0.0
    pending: Headers = UNDECIDED
    """Value of `facts` before an instance was selected."""
    _early = False
    """The headers were sent before the facts were known."""
    status = 0
    begun = False
    """Data of the answer itself was sent; keep-alive comments do not count."""
    ended = False
    """The whole answer was sent."""
    gone = False
    """The client disconnected before the end."""
    place: Callable[[], int] | None = None
    """Returns the request's place in the queue while it waits."""
    late = False
    """The deadline passed before the end."""
    shut = False
    """The caller's key was revoked before the end."""
    breaks = False
    """The body is not text and cannot contain an error: on failure the connection is closed."""
    so_far: Callable[[], int] | None = None
    """Returns an estimate of the tokens received so far, if the server has not reported a count."""

    def __init__(self, request_id: bytes, send: Send, line: Line | None = None) -> None:
        """With a `line`, a good answer that is whole goes out on it, past `send`."""
        self._send, self._line, self.request_id = send, line, request_id
        self.started_at = time.perf_counter()
        self.facts: Headers = []
        """Headers that describe the route of the answer."""

    @property
    def cut_off(self) -> bool:
        """Whether the response was ended early by the client, the deadline or a revoked key."""
        return self.gone or self.late or self.shut

    def _head(self, status: int, content_type: bytes, headers: Headers, facts: Headers) -> Headers:
        self.status, self.first_byte_at = status, time.perf_counter()
        spent = b"%d" % ((self.first_byte_at - self.started_at) * 1000)
        return [
            (b"content-type", content_type),
            (b"x-request-id", self.request_id),
            (b"openai-processing-ms", spent),
            *facts,
            *headers,
        ]

    async def start(
        self, status: int, content_type: bytes, headers: Headers, facts: Headers | None = None
    ) -> None:
        """Send the headers of a response of unknown length, with `facts` instead of those of the
        reply if they are set."""
        head = self._head(status, content_type, headers, self.facts if facts is None else facts)
        if self._line is not None and self._line.quick:
            self._line.begin(status, head)
        else:
            await self._begin(status, head)

    async def _begin(self, status: int, head: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": head})

    @property
    def open_line(self) -> Line | None:
        """The writer for data that bypasses ASGI, if there is one."""
        return self._line if self._line is not None and self._line.streams else None

    async def sign_of_life(self) -> None:
        """Send a keep-alive comment to a caller that waits for a stream; clients skip comments.

        This commits the status: later errors, and the expert that answers, are sent in the stream.
        """
        if self.begun or self.ended:
            return
        if not self.status:
            await self._start_early()
        await self._more(self.sign())

    def sign(self) -> bytes:
        """Return the comment, with the place in the queue where there is one."""
        return WAITING if self.place is None else b": waiting, place %d\n\n" % self.place()

    async def _start_early(self) -> None:
        """Send headers before an instance has answered."""
        self._early = True
        known = [
            (name, value + b"; not answered yet" if name == ROUTE else value)
            for name, value in self.facts
            if name in (EXPERT, ROUTE)
        ]
        headers = [(b"cache-control", b"no-cache")]
        await self.start(200, EVENT_STREAM, headers, known or self.pending)

    @property
    def waited(self) -> bool:
        """True if headers were sent before the upstream was known; facts then follow as
        comments."""
        return self._early

    def _certain(self) -> bytes:
        """Return the facts that were unknown when the headers were sent, as stream comments."""
        self._early = False
        return b"".join(b": %s: %s\n" % fact for fact in self.facts) + b"\n"

    async def piece(self, data: bytes) -> None:
        if not self.begun:
            self.begun, self.first_byte_at = True, time.perf_counter()
            if self._early:
                data = self._certain() + data
        await self._more(data)

    async def _more(self, data: bytes) -> None:
        if self._line is not None and self._line.streams:
            self._line.piece(data)
        else:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        if self._early:
            data = self._certain() + data
        if self._line is not None and self._line.streams:
            self._line.end(data)
        else:
            # Waits for a slow client at most until the deadline.
            await self._send({"type": "http.response.body", "body": data})
        self.ended = True

    async def whole(
        self, status: int, data: bytes, headers: Headers, content_type: bytes = JSON
    ) -> None:
        if self.status:
            self.status = status
            if self.breaks:
                self.ended = True
            else:
                await self.end(b"data: %s\n\n" % data.replace(b"\n", b""))
            return
        if status < 400 and self._line is not None and self._line.quick:
            self.ended = True
            head = self._head(status, content_type, headers, self.facts)
            self._line.answer(status, head, data)
            return
        length = (b"content-length", b"%d" % len(data))
        await self._begin(status, self._head(status, content_type, [length, *headers], self.facts))
        await self.end(data)

    async def refuse(self, refused: Refused) -> None:
        """Send an error: as the response, or as the last event of a response that has begun."""
        if not self.facts:
            reason = f"refused: {refused.code or refused.status}".encode()
            self.facts = [(EXPERT, b"none"), (ROUTE, reason)]
        headers = [(k.encode(), v.encode()) for k, v in (refused.headers or {}).items()]
        await self.whole(refused.status, orjson.dumps(refused.body()), headers)


async def read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """The whole request, piece by piece. Raises `Refused` (413) or `CallerGone`."""
    receive = limited(headers, receive, limit, partial(too_large, limit))
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(_body(message))
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _body(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise CallerGone
    data: bytes = message.get("body", b"")
    return data


async def pass_whole(
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
            raise no_answer(connection) from error
        data = finished(data)
    await reply.whole(status, data, headers)
    return usage


def no_answer(connection: Connection, *, streams: bool = False) -> Lost:
    """Return the error for a response that is not an answer: a page of another server, a
    truncated document, or a document although the caller requested a stream."""
    kind = connection.content_type.partition(b";")[0].decode("latin-1")[:50] or "no content type"
    wanted = "stream" if streams else "JSON object"
    return Lost(f"{connection.address.authority} sent what is no {wanted} ({kind}).")


async def pass_bytes(reply: Reply, connection: Connection, idle: float) -> None:
    """Forward a response of any type, such as audio or its transcript, as it arrives.

    Raises `UpstreamError` before the first byte. A later failure is sent as an event if the
    response has events; otherwise the caller's connection is closed without the end of the body, so
    that a partial recording is not mistaken for a complete one (uvicorn closes it).
    """
    told = connection.content_type.startswith(EVENT_STREAM)
    try:
        while data := await connection.piece(idle):
            await _begun(reply, connection)
            reply.breaks = not told
            await reply.piece(data)
    except UpstreamError as error:
        if not reply.begun:
            raise
        _broken(reply, error)
        if told:
            await reply.end(error_event(str(error), type="server_error", code=error.code))
        reply.ended = True
        return
    await _begun(reply, connection)
    await reply.end()


async def _begun(reply: Reply, connection: Connection) -> None:
    """Mark the answer as begun: the headers of the server apply."""
    if not reply.status:
        headers = passed_back(connection)
        await reply.start(connection.status, connection.content_type, headers)
    elif reply.waited:
        told = passed_back(connection)
        reply.facts += [one for one in told if one[0].startswith(b"x-hearth-")]


async def pass_stream(
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
    """Its caller has words of it, and the status before them; what is counted is a failure."""
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
                    pouring = Pouring(line, tap)
                    await connection.pour(idle, pouring)
                    out = pouring.ended()
    except EventTooLong as error:
        raise Lost(str(error)) from error
    if tap.done:
        return out
    if not tap.failed:
        raise Lost(f"{connection.address.authority}: the answer ended before it was complete.")
    return b""


async def pass_assembled(
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
        raise Lost("The server sent an event that is no JSON.") from error
    if not isinstance(chunk, dict):
        raise Lost("The server sent an event that is no chunk.")
    return chunk


def _status(chunk: dict[str, Any]) -> int:
    """Return the HTTP status of an error in a stream; llama-server sends it as `code`."""
    error = chunk["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code <= 599 else 500
