"""The server protocol: uvicorn's, with coalesced writes and direct access for the fast path.

uvicorn writes the headers and the first bytes of a body separately, and uvloop passes each write to
the kernel at once: two packets, and a client that wakes up twice. Such writes are half of the cost
of a small answer. Requests of the fast path are also read, watched and answered on their connection
without ASGI messages (decision 0023).
"""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any, Final
from weakref import WeakKeyDictionary

from starlette.types import Scope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from hearth.service.http_protocol import NO_HTTP, TimeoutHttpProtocol
from moe_gateway.endpoints import FAST_PATHS
from moe_gateway.errors import Headers
from moe_gateway.http.deadlines import Deadlines
from moe_gateway.http.headers import request_id

HEAD: Final = b"HTTP/1.1 "
EXTENSION: Final = "hearth.line"
"""Where a scope of `CorkedProtocol` has its `Line`."""

_IDLE: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Deadlines]] = WeakKeyDictionary()
"""How long connections may be silent between two requests, by their loop."""

_PATHS: Final = {path.encode(): path for path in FAST_PATHS}
"""The paths of the fast path, as a request line has them."""

NO_HEAD: Final = bytes((*range(9), *range(10, 32), 127))
"""Characters that the names and values of headers must not contain."""


class Cork:
    """A transport that holds headers back until the body is written, or until the loop is free."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._write = transport, transport.write
        self._loop, self._held = asyncio.get_running_loop(), b""
        self.is_closing = transport.is_closing
        self.write_whole = transport.write
        """For a head with all of its body: nothing is held back."""

    def write(self, data: bytes) -> None:
        if self._held:
            data, self._held = self._held + data, b""
        elif data.startswith(HEAD):
            self._held = data
            self._loop.call_soon(self._flush)
            return
        self._write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            self._write(data)


class Cycle(RequestResponseCycle):
    """uvicorn's request and response; values that nearly all share are class attributes."""

    disconnected = response_started = response_complete = False
    more_body = True
    chunked_encoding: bool | None = None
    expected_content_length = 0
    _event: asyncio.Event | None = None

    def __init__(self, protocol: "CorkedProtocol", *, keep_alive: bool) -> None:
        self.scope, self.body = protocol.scope, bytearray()
        self.transport, self.flow = protocol.transport, protocol.flow
        self.logger, self.access_logger = protocol.logger, protocol.access_logger
        self.access_log = protocol.access_log
        self.default_headers = protocol.server_state.default_headers
        self.on_response = protocol.on_response_complete
        self.keep_alive, self.waiting_for_100_continue = keep_alive, protocol.expect_100_continue

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override]
        """Set when there is data or a disconnect to receive; created when it is first used."""
        if self._event is None:
            self._event = asyncio.Event()
            if self.body or not self.more_body or self.disconnected or self.response_complete:
                self._event.set()
        return self._event

    def happened(self) -> None:
        """Wake the receiver: there is new data, or the end."""
        if self._event is not None:
            self._event.set()


class Line:
    """The connection of one request, while it is answered."""

    __slots__ = ("_cork", "_cycle", "_watching", "task")

    def __init__(self, cycle: Cycle, cork: Cork) -> None:
        self._cycle, self._cork = cycle, cork
        self._watching: Callable[[], None] | None = None
        self.task: asyncio.Task[None] | None = None
        """Answers it."""

    def watch(self, hung_up: Callable[[], None]) -> Callable[[], None]:
        """Call `hung_up` when the client disconnects, or now if it has; returns what ends that."""
        if self._cycle.disconnected:
            hung_up()
        else:
            self._watching = hung_up
            # A large body has paused reading, and a disconnect is noticed only while reading.
            self._cycle.flow.resume_reading()
        return self.leave_alone

    def leave_alone(self) -> None:
        """End the watching."""
        self._watching = None

    def lost(self) -> None:
        """The client has disconnected."""
        self.forget()
        if self._watching is not None:
            self._watching()

    def forget(self) -> None:
        """Drop the line from the scope: it would form a reference cycle that only the garbage
        collector frees."""
        self._cycle.scope.pop("extensions", None)

    def body(self) -> bytes | None:
        """Return the body of the request if it is complete, as small ones are; else None."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected:
            return None
        cycle.flow.resume_reading()
        return bytes(cycle.body)

    @property
    def quick(self) -> bool:
        """Whether an answer can be sent now: none has begun, and the client reads."""
        cycle = self._cycle
        if cycle.chunked_encoding is False:
            return False
        return not (cycle.response_started or cycle.disconnected or cycle.flow.write_paused)

    def answer(self, status: int, headers: Headers, data: bytes) -> None:
        """Send a complete answer as uvicorn would, with its length.

        Raises `RuntimeError` for a header that contains a line break.
        """
        head = self._head(status, headers, b"content-length: %d\r\n\r\n" % len(data))
        self._cork.write_whole(head + data)
        self._over()

    def begin(self, status: int, headers: Headers) -> None:
        """Send the headers of an answer of unknown length, together with its first chunk.
        Raises like `answer`."""
        self._cork.write(self._head(status, headers, b"transfer-encoding: chunked\r\n\r\n"))
        self._cycle.chunked_encoding = True

    def _head(self, status: int, headers: Headers, last: bytes) -> bytes:
        cycle = self._cycle
        lines = [b": ".join(header) for header in cycle.default_headers + headers]
        head = b"".join(lines)
        if len(head.translate(None, NO_HEAD)) != len(head):
            raise RuntimeError("A header contains a character that is not permitted.")
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        lines.append(last)
        cycle.response_started, cycle.waiting_for_100_continue = True, False
        return STATUS_LINE[status] + b"\r\n".join(lines)

    def _over(self) -> None:
        cycle = self._cycle
        cycle.response_complete = True
        cycle.happened()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

    @property
    def streams(self) -> bool:
        """Whether a chunk of an answer of unknown length can be sent now."""
        cycle = self._cycle
        begun = cycle.response_started and not cycle.response_complete
        return begun and bool(cycle.chunked_encoding) and not cycle.flow.write_paused

    def piece(self, data: bytes) -> bool:
        """Send a chunk of a stream as uvicorn would; returns whether more can be sent now."""
        cycle = self._cycle
        if data and not cycle.disconnected:
            self._cork.write(b"%x\r\n%s\r\n" % (len(data), data))
        return not cycle.flow.write_paused

    def end(self, data: bytes) -> None:
        """Send the last chunk, which may be empty, and the end."""
        if not self._cycle.disconnected:
            last = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
            self._cork.write(last)
            self._over()


def line_of(scope: Scope) -> Line | None:
    """Return the line of a request; None if another server accepted it."""
    found: Line | None = scope.get("extensions", {}).get(EXTENSION)
    return found


class CorkedProtocol(TimeoutHttpProtocol):
    """HTTP on one connection."""

    _cork: Cork
    _idle: Deadlines
    _begin: dict[str, Any]
    """The values that the scopes of its requests share."""
    _line: Line | None = None
    due = inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle = _IDLE.setdefault(self.loop, Deadlines())
        self._idle.add(self)
        self._cork = Cork(transport)
        self.transport = self._cork  # type: ignore[assignment]
        super().on_message_begin()
        self._begin = {**self.scope, "query_string": b""}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle.remove(self)
        if self._line is not None:
            self._line.lost()

    def on_message_begin(self) -> None:
        """As uvicorn's, which makes a scope for it before it knows its path."""
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._in_head = True

    def on_headers_complete(self) -> None:
        """As uvicorn's, which still begins all other requests: the URL of a request of the fast
        path has no query or escape that uvicorn would parse."""
        path, parser = _PATHS.get(self.url), self.parser
        plain = parser.get_http_version() == "1.1" and not parser.should_upgrade()
        if path is None or not plain or self.root_path or self.limit_concurrency is not None:
            self._begin_slowly()
            return
        self._in_head, self._head_bytes = False, 0
        self.scope = scope = self._begin.copy()  # type: ignore[assignment]
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"], scope["raw_path"], scope["headers"] = path, self.url, self.headers
        scope["state"] = self.app_state.copy()
        before, self.cycle = self.cycle, Cycle(self, keep_alive=parser.should_keep_alive())
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _begin_slowly(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if not isinstance(cycle, Cycle):
            super().on_body(body)
        elif not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.happened()

    def on_message_complete(self) -> None:
        cycle = self.cycle
        if not isinstance(cycle, Cycle):
            super().on_message_complete()
        elif not cycle.response_complete:
            cycle.more_body = False
            cycle.happened()

    def on_response_complete(self) -> None:
        """As uvicorn's, without a timer of the loop for each answer."""
        self.server_state.total_requests += 1
        if self._line is not None:
            self._line.forget()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        else:
            self._idle.within(self, self.timeout_keep_alive)

    def _error_headers(self) -> Headers:
        told = b"refused: %s" % NO_HTTP.encode()
        known = [(b"x-request-id", request_id({}))]
        return [*known, (b"x-hearth-expert", b"none"), (b"x-hearth-route", told)]

    def late(self) -> None:
        """Close the connection: it was idle for too long after an answer."""
        self.timeout_keep_alive_handler()

    def _unset_keepalive_if_required(self) -> None:
        self.due = inf

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """As uvicorn's; the line of a request of the fast path knows its task."""
        line = self._line = Line(cycle, self._cork) if isinstance(cycle, Cycle) else None
        if line is not None:
            cycle.scope["extensions"] = {EXTENSION: line}  # type: ignore[dict-item]
        task = self.loop.create_task(cycle.run_asgi(app))
        if line is not None:
            line.task = task
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
