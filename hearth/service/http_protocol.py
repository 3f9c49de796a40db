"""uvicorn's HTTP protocol with time limits for slow clients."""

import asyncio
import json
import socket
import struct
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from hearth.service.error_body import CODES, error_body, error_type

HEAD_SECONDS: Final = 20.0
"""Time limit for the headers of a request, from their first byte, or from a new connection."""
HEAD_BYTES: Final = 64 * 1024
BODY_SECONDS: Final = 30.0
"""How long a client may send nothing in the middle of a request's body."""
BODY_RATE: Final = 500
"""Minimum average rate of a body in bytes per second."""
TOO_SLOW: Final = CODES[408]
INVALID: Final = "This is not a valid HTTP request."
NO_HTTP: Final = "invalid_http"
"""The error code of `INVALID`."""
AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Value of `SO_LINGER` with which closing a socket resets the connection."""


def refusal(message: str, code: str) -> bytes:
    """Return the body of a 400 for a request that does not reach the application."""
    return json.dumps(error_body(message, type=error_type(400), code=code)).encode()


class AnyLength:
    """A content length for uvicorn that permits any length."""

    def __lt__(self, other: int) -> bool:
        return False

    def __sub__(self, other: int) -> "AnyLength":
        return self

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class EndsWithConnection:
    """The transport of a response that ends with its connection.

    An incomplete response resets the connection, so that the client does not take it as complete.
    """

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        self._transport, self._cycle = transport, cycle

    def close(self) -> None:
        if self._cycle.response_complete:
            self._transport.close()
            return
        connection = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self._transport.abort()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class TimeoutHttpProtocol(HttpToolsProtocol):
    """HTTP protocol with timeouts.

    Closes a connection without a request, with incomplete headers, with a body that stops, or with
    data after the response that is not a request.

    uvicorn itself limits only the idle time between two requests. A request whose headers arrive in
    one chunk, as nearly all do, has no overhead.
    """

    head_seconds = HEAD_SECONDS
    body_seconds = BODY_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head, self._head_bytes = True, 0
        self._late: asyncio.TimerHandle | None = None
        self._in_body, self._body_credit, self._body_at = False, 0.0, 0.0
        self._body_check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(self.head_seconds, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_longer_late()
        self._in_body = False
        if self._body_check is not None:
            self._body_check.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._in_body, self._body_credit = True, self.body_seconds
        self._body_at = self.loop.time()
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and not self.parser.should_upgrade():
            # HTTP/1.0 has no chunks: closing the connection ends the stream.
            self.cycle.chunked_encoding = False
            self.cycle.expected_content_length = AnyLength()  # type: ignore[assignment]
            ending = EndsWithConnection(self.cycle.transport, self.cycle)
            self.cycle.transport = ending  # type: ignore[assignment]

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self._give_up()
            return
        self._unset_keepalive_if_required()
        self._parse(data)
        if self._in_head:
            self._head_bytes += len(data)
        elif not self._is_answered():
            self._no_longer_late()
            if self._in_body:
                self._body_came(len(data))
            return
        if self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self._give_up)

    def _parse(self, data: bytes) -> None:
        """Parse as uvicorn does, but accept upgrades only to WebSocket."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.logger.warning(INVALID)
            self.send_400_response(INVALID)
        except httptools.HttpParserUpgrade as offer:
            if self.scope["method"] == "CONNECT":
                self.send_400_response("This server is not a proxy.")
            elif super()._should_upgrade():
                self._in_body = False
                self.handle_websocket_upgrade()
            else:
                self._pass_over_offer(data[offer.args[0] :])

    def _should_upgrade(self) -> bool:
        """Return true: `_parse` decides later whether a request is upgraded."""
        return True

    def _pass_over_offer(self, rest: bytes) -> None:
        """Parse the request again without its `Upgrade` header (RFC 9110, section 7.8).

        Java's HTTP client offers h2c with every request, and the parser would treat the body as
        that protocol.
        """
        scope = self.scope
        headers = [b"%s: %s\r\n" % line for line in self.headers if line[0] != b"upgrade"]
        start = f"%s %s HTTP/{scope['http_version']}\r\n".encode()
        start %= scope["method"].encode(), self.url
        self.parser = httptools.HttpRequestParser(self)  # The old one may have ended its request.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parse(b"".join((start, *headers, b"\r\n", rest)))

    def send_400_response(self, msg: str) -> None:
        """Respond with an OpenAI error; if a response has started, close the connection instead."""
        cycle = self.cycle
        started = cycle is not None and cycle.response_started and not cycle.response_complete
        if started or self.pipeline:
            cycle.transport.close()
            return
        self._refuse(400, msg, NO_HTTP)

    def _refuse(self, status: int, message: str, code: str) -> None:
        body = refusal(message, code)
        lines = (
            *self.server_state.default_headers,
            *self._error_headers(),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        )
        head = b"".join(b"%s: %s\r\n" % line for line in lines)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()

    def _error_headers(self) -> list[tuple[bytes, bytes]]:
        """Return additional headers of an error response; subclasses may add some."""
        return []

    def _is_answered(self) -> bool:
        """Return whether no request is active.

        Data that starts no request, such as an empty line or the rest of an unread body, has
        cancelled uvicorn's idle timeout.
        """
        answered = self.cycle is not None and self.cycle.response_complete
        return answered and self in self.connections  # otherwise a WebSocket uses the connection

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self.send_400_response("The request headers are too long or arrived too slowly.")
        else:
            self.transport.close()

    def _body_came(self, size: int) -> None:
        """Add the time that a chunk of a body allows until the next one, and schedule a check."""
        now = self.loop.time()
        credit = self._body_credit - (now - self._body_at) + size / BODY_RATE
        self._body_credit, self._body_at = min(self.body_seconds, credit), now
        if self._body_check is None:
            self._body_check = self.loop.call_later(self.body_seconds, self._check_body)

    def _check_body(self) -> None:
        """Close a connection whose body does not continue, unless the application reads it
        slowly."""
        self._body_check = None
        if not self._in_body or self.transport.is_closing():
            return
        if self.flow.read_paused:
            self._body_credit, self._body_at = self.body_seconds, self.loop.time()
        left = self._body_credit - (self.loop.time() - self._body_at)
        if left > 0:
            self._body_check = self.loop.call_later(left, self._check_body)
        elif self.cycle.response_started or self.pipeline:
            self.transport.close()
        else:
            self._refuse(408, "The body of the request did not arrive in time.", TOO_SLOW)

    def _no_longer_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
