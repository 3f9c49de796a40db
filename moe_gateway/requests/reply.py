"""The reply to one caller: headers once, then the body, as an explicit state machine."""

import time
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Final

import orjson
from starlette.types import Send

from hearth.service.http_errors import Refused
from moe_gateway.errors import Headers
from moe_gateway.http.server import Line

JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream"
WAITING: Final = b": waiting\n\n"
EXPERT: Final = b"x-hearth-expert"
ROUTE: Final = b"x-hearth-route"
BY_ITSELF: Final = ((EXPERT, b"none"), (ROUTE, b"answered by the gateway itself"))
UNDECIDED: Final = [(EXPERT, b"none"), (ROUTE, b"being decided")]


class Phase(IntEnum):
    """How far a reply is; it only moves forward."""

    PENDING = 0
    """Nothing was sent: the status can still be chosen, and another instance tried."""
    EARLY = 1
    """Headers and keep-alive comments were sent before an instance had answered; the routing facts
    follow as comments."""
    STARTED = 2
    """Headers were sent, with the routing facts."""
    STREAMING = 3
    """Data of the answer itself was sent."""
    ENDED = 4
    """All was sent, at once: an answer or an error."""
    STREAMED = 5
    """The last chunk of a stream was sent."""


PENDING, EARLY, STARTED, STREAMING, ENDED, STREAMED = Phase


class Cut(Enum):
    """Why a reply is ended early."""

    DISCONNECTED = "caller_gone"
    TIMED_OUT = "deadline_passed"
    REVOKED = "key_closed"


class Reply:
    """The response to one caller: headers once, then the body. It always has the request's id."""

    first_byte_at = 0.0
    pending: Headers = UNDECIDED
    """Value of `facts` before an instance was selected."""
    phase = PENDING
    cut: Cut | None = None
    """Set if the reply is ended before it is complete."""
    status = 0
    """HTTP status; 0 while the reply is pending."""
    place: Callable[[], int] | None = None
    """Returns the request's place in the queue while it waits."""
    waking: Callable[[], str] | None = None
    """Returns the progress of the machine that is woken for the request, as a sentence."""
    binary = False
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
    def begun(self) -> bool:
        """Whether data of the answer was sent; keep-alive comments do not count."""
        return self.phase is STREAMING or self.phase is STREAMED

    @property
    def ended(self) -> bool:
        """Whether nothing is left to send."""
        return self.phase >= ENDED

    def close(self) -> None:
        """End the reply where it is; uvicorn closes the connection of an incomplete body."""
        self.phase = STREAMED if self.phase is STREAMING else ENDED

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
        self.phase = STARTED
        head = self._head(status, content_type, headers, self.facts if facts is None else facts)
        await self._send_head(status, head)

    async def _send_head(self, status: int, head: Headers) -> None:
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

    async def keep_alive(self) -> None:
        """Send a keep-alive comment to a caller that waits for a stream; clients skip comments.

        This commits the status: later errors, and the expert that answers, are sent in the stream.
        """
        if self.phase >= STREAMING:
            return
        if self.phase is PENDING:
            await self._start_early()
        await self._more(self.keep_alive_comment())

    def keep_alive_comment(self) -> bytes:
        """Return the comment, with the place in the queue or the machine that it waits for."""
        if self.waking is not None:
            return b": waiting, %s\n\n" % self.waking().encode()
        return WAITING if self.place is None else b": waiting, place %d\n\n" % self.place()

    async def _start_early(self) -> None:
        """Send headers before an instance has answered."""
        known = [
            (name, value + b"; not answered yet" if name == ROUTE else value)
            for name, value in self.facts
            if name in (EXPERT, ROUTE)
        ]
        headers = [(b"cache-control", b"no-cache")]
        self.phase = EARLY
        head = self._head(200, EVENT_STREAM, headers, known or self.pending)
        await self._send_head(200, head)

    def _certain(self) -> bytes:
        """Return the facts that were unknown when the headers were sent, as stream comments."""
        return b"".join(b": %s: %s\n" % fact for fact in self.facts) + b"\n"

    async def piece(self, data: bytes) -> None:
        if self.phase < STREAMING:
            if self.phase is EARLY:
                data = self._certain() + data
            self.phase, self.first_byte_at = STREAMING, time.perf_counter()
        await self._more(data)

    async def _more(self, data: bytes) -> None:
        if self._line is not None and self._line.streams:
            self._line.piece(data)
        else:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        if self.phase is EARLY:
            data = self._certain() + data
            self.phase = STARTED
        if self._line is not None and self._line.streams:
            self._line.end(data)
        else:
            # Waits for a slow client at most until the deadline.
            await self._send({"type": "http.response.body", "body": data})
        self.close()

    async def whole(
        self, status: int, data: bytes, headers: Headers, content_type: bytes = JSON
    ) -> None:
        if self.phase is not PENDING:
            self.status = status
            if self.binary:
                self.close()
            else:
                await self.end(b"data: %s\n\n" % data.replace(b"\n", b""))
            return
        if status < 400 and self._line is not None and self._line.quick:
            self.phase = ENDED
            head = self._head(status, content_type, headers, self.facts)
            self._line.answer(status, head, data)
            return
        self.phase = STARTED
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
