"""The client side of the gateway: HTTP/1.1 connections that carry one answer at a time.

    UpstreamError
      + Unreachable           no connection, so the request was not sent
      |   + ConnectTimedOut
      + Lost                  the connection broke, or the data is not HTTP
      + TimedOut              silence
          + FirstByteTimedOut
          + IdleTimedOut

Why our own: a general client costs more per token than everything else here together
(docs/decisions/0020-http-transport-of-the-gateway.md).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Self
from urllib.parse import urlsplit

import httptools

from moe_gateway.http.deadlines import Deadlines

HIGH_WATER = 256 * 1024
"""Bytes that wait for a slow caller before reading from the server pauses."""

COPIED = 64 * 1024
"""Maximum bytes of a body that are copied behind the headers; a longer body is sent separately."""

STALE_SECONDS = 1.0
"""A stale connection, closed by the server while idle, fails within this time after a request."""

LINGER_SECONDS = 0.25
"""Seconds to wait for the end of a finished answer before the connection is closed."""


class UpstreamError(Exception):
    """A server did not answer, or not completely; the subclass states the failure.

    `code` is the code of the error that the caller receives.
    """

    code = "upstream_lost"


class Unreachable(UpstreamError):
    """No connection: check that the server runs and its address is right. Another instance may
    be tried."""

    code = "upstream_unreachable"


class ConnectTimedOut(Unreachable):
    """The machine does not answer. See also the setting that the message names."""

    code = "upstream_connect_timeout"


class Lost(UpstreamError):
    """The server closed the connection during the answer: see its log."""


class TimedOut(UpstreamError):
    """The server is silent. A longer time may be set with the setting that the message names."""


class FirstByteTimedOut(TimedOut):
    """It accepted the request, but does not begin to answer."""

    code = "upstream_first_byte_timeout"


class IdleTimedOut(TimedOut):
    """It began to answer, then fell silent."""

    code = "upstream_idle_timeout"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server; `path` is the prefix of every path on it."""

    host: str
    port: int
    tls: bool = False
    path: str = ""

    def __hash__(self) -> int:
        """Quicker than that of all fields, and hardly ever the same for two."""
        return hash((self.host, self.port))

    @classmethod
    def of(cls, url: str) -> Self:
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        return cls(parts.hostname or "", port, tls, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """`host:port`, as in a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Without the user and password that a setting may have."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.path}"


class Connection(asyncio.Protocol):
    """One connection, with its current answer."""

    def __init__(self, address: Address, deadlines: Deadlines) -> None:
        self.address, self._deadlines = address, deadlines
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.content_type = b""
        self.complete = True
        """The answer is complete, or no request was sent yet."""
        self.resting_in: list[Connection] | None = None
        """Where it waits for its next request."""
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._pieces: deque[bytes] = deque()
        self.on_body = self._pieces.append
        """Callback of the parser for each chunk; a bound method would cost more than the rest."""
        self._waiting_bytes = 0
        self._sink: Callable[[bytes], bool] | None = None
        self._idle = 0.0
        self._head = self._paused = self._framed = self._heard = False
        self._closed = self._keep_alive = False
        self._error: UpstreamError | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._sent_at = 0.0
        self.due = inf

    # Methods for the gateway.

    async def ask(self, head: bytes, body: bytes, seconds: float) -> None:
        """Send a request, whose head ends with its blank line, and wait for status and headers.

        Raises `Lost` or `TimedOut`; the connection is closed then.
        """
        try:
            self._send(head, body)
            left = seconds
            while not self._head:
                if self._error is not None:
                    raise self._error
                if not await self._event(left):
                    raise first_byte_timeout(self.address, seconds)
                left = self._sent_at + seconds - self.now()
        except BaseException:
            self.abort()
            raise

    def _send(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        self._pieces.clear()
        self._waiting_bytes = 0
        self._head = self._framed = self._heard = self._keep_alive = self.complete = False
        self._sent_at = self.now()
        if len(body) < COPIED:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    async def piece(self, seconds: float) -> bytes:
        """Return the data of the body since the last call; empty at its end.

        Raises `Lost` or `TimedOut`.
        """
        while not self._pieces:
            if self.complete:
                return b""
            if self._error is not None:
                raise self._error
            if not await self._event(seconds):
                raise self._fell_silent(seconds)
        data = self._taken()
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def body(self, seconds: float, limit: int) -> bytes:
        """The whole body. Raises `Lost`, also when it is longer than `limit`, or `TimedOut`."""
        if self.complete and self._waiting_bytes <= limit and not self._paused:
            return self._taken()
        pieces, size = [], 0
        while data := await self.piece(seconds):
            pieces.append(data)
            size += len(data)
            if size > limit:
                raise Lost(f"{self.address.authority}: the answer is larger than {limit} bytes.")
        return b"".join(pieces)

    async def pour(self, seconds: float, sink: Callable[[bytes], bool]) -> None:
        """Call `sink` with each chunk as it arrives, until it returns False; no task has to wake
        up. Also returns at the end of the body, and immediately if data has arrived already. Raises
        like `piece`; `sink` must not raise.
        """
        if self._pieces:
            return
        self._sink, self._idle = sink, seconds
        try:
            while self._sink is not None and not self.complete:
                if self._error is not None:
                    raise self._error
                if not await self._event(seconds):
                    raise self._fell_silent(seconds)
        finally:
            self._sink = None

    def _poured(self, sink: Callable[[bytes], bool]) -> bool:
        """Pass received data to `sink`; returns whether all was accepted and more is expected."""
        if self._pieces:
            data = self._taken()
            if not sink(data):
                self._sink = None
                return False
        if self.complete:
            return False
        self.due = self.now() + self._idle
        return True

    def _taken(self) -> bytes:
        """Return and clear the received data of the body."""
        data = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        return data

    def _fell_silent(self, seconds: float) -> IdleTimedOut:
        return IdleTimedOut(
            f"{self.address.authority} paused for {seconds:g} s in mid-answer"
            " (setting MOE_GATEWAY_IDLE_TIMEOUT)."
        )

    async def linger(self) -> None:
        """Read the remaining bytes of a finished answer, so that the connection can be reused."""
        try:
            while await self.piece(LINGER_SECONDS):
                pass
        except UpstreamError:
            self.abort()

    def rest(self, seconds: float, among: "list[Connection]") -> None:
        """Wait for the next request `among` others, for so long."""
        among.append(self)
        self.resting_in = among
        self._deadlines.within(self, seconds)

    def abort(self) -> None:
        """Close the connection now, which cancels the request on the server."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def has(self, name: bytes) -> bool:
        """Whether its answer has a header of this name, which is in small letters."""
        return any(one == name for one, _ in self.headers)

    @property
    def reusable(self) -> bool:
        return self._keep_alive and self.complete and not self._closed and not self._pieces

    @property
    def was_stale(self) -> bool:
        """Whether it broke right after sending, before any answer: it was closed while idle."""
        return not self._heard and self.now() - self._sent_at < STALE_SECONDS

    def _event(self, seconds: float) -> "asyncio.Future[bool]":
        """Return a future: True on the next event, False if none occurs within `seconds`."""
        self._waiter = waiter = self._loop.create_future()
        self._deadlines.within(self, seconds)
        return waiter

    def late(self) -> None:
        """Nothing happened in time."""
        if self.resting_in is None:
            self._wake(happened=False)
        else:
            self.abort()

    def _wake(self, *, happened: bool = True) -> None:
        waiter, self._waiter, self.due = self._waiter, None, inf
        if waiter is not None and not waiter.done():
            waiter.set_result(happened)

    def _fail(self, reason: str) -> None:
        if not self.complete and self._error is None:
            self._error = Lost(f"{self.address.authority}: {reason}.")
        self._wake()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._deadlines.add(self)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._waiting_bytes += len(data)
        if self._parser is None or self.complete:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("its response is not valid HTTP")
            self.abort()
            return
        if self._sink is not None and self._poured(self._sink):
            return
        if self._waiting_bytes > HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed, self._parser = True, None
        self._deadlines.remove(self)
        if self.resting_in is not None:
            self.resting_in.remove(self)
            self.resting_in = None
        if self._head and not self._framed and exc is None:
            self.complete = True
        self._fail("the connection was reset" if exc else "the connection was closed")

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self.complete:
            raise httptools.HttpParserError("More than was asked for: anybody's guess what it is.")
        self.headers, self.content_type = [], b""

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._framed = True
        elif name == b"content-type":
            self.content_type = value
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser is not None and not self.complete:
            self.status = self._parser.get_status_code()
            self._head = self.status >= 200

    def on_message_complete(self) -> None:
        if self._parser is not None and self._head and not self.complete:
            self._keep_alive = self._framed and self._parser.should_keep_alive()
            self.complete = True


def first_byte_timeout(address: Address, seconds: float) -> FirstByteTimedOut:
    return FirstByteTimedOut(
        f"{address.authority} did not begin to answer within {seconds:g} s"
        " (setting MOE_GATEWAY_FIRST_BYTE_TIMEOUT)."
    )
