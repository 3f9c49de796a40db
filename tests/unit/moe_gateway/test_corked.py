"""The head of an answer leaves with its body, but never waits for it."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from hearth.openai_api.sse import MAX_EVENT_BYTES, EventTooLong
from hearth.openai_api.usage import StreamTap
from moe_gateway.http.server import Cork, Cycle, Line
from moe_gateway.requests.forwarder import StreamForwarder

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Kernel(asyncio.Transport):
    """Keeps each write, as the kernel would get it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.packets: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.packets.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def test_head_and_first_piece_are_one_write() -> None:
    """Two writes are two packets, and half of what a small answer costs."""
    kernel = Kernel()
    cork = Cork(kernel)

    cork.write(HEAD)
    cork.write(b"body")
    cork.write(b"more")
    await asyncio.sleep(0)

    assert kernel.packets == [HEAD + b"body", b"more"]


async def test_head_alone_leaves_as_soon_as_the_loop_is_free() -> None:
    """A stream that says so early that it will come must not look silent."""
    kernel = Kernel()

    Cork(kernel).write(HEAD)
    await asyncio.sleep(0)

    assert kernel.packets == [HEAD]


async def test_head_leaves_before_the_connection_is_closed() -> None:
    """An answer without a body, such as to HEAD, ends with its head."""
    kernel = Kernel()
    cork = Cork(kernel)

    cork.write(HEAD)
    cork.close()

    assert (kernel.packets, kernel.closed) == ([HEAD], True)
    assert cork.get_extra_info("peername") == ("127.0.0.1", 1)


def line(kernel: Kernel, *, keep_alive: bool = True) -> Line:
    """The line of a request whose body has come."""
    cork = Cork(kernel)
    transport: Any = cork
    protocol: Any = SimpleNamespace(
        scope={},
        transport=transport,
        flow=FlowControl(transport),
        logger=logging.getLogger(),
        access_logger=logging.getLogger(),
        access_log=False,
        server_state=SimpleNamespace(default_headers=[]),
        expect_100_continue=False,
        on_response_complete=lambda: None,
    )
    cycle = Cycle(protocol, keep_alive=keep_alive)
    cycle.body, cycle.more_body = bytearray(b"{}"), False
    return Line(cycle, cork)


@pytest.mark.parametrize(("keep_alive", "more"), [(True, b""), (False, b"connection: close\r\n")])
async def test_whole_answer_is_one_write(*, keep_alive: bool, more: bytes) -> None:
    """Also for who wants to be left afterwards: then the connection is closed."""
    kernel = Kernel()

    line(kernel, keep_alive=keep_alive).answer(200, [(b"x-route", b"by name")], b"body")

    head = b"HTTP/1.1 200 OK\r\nx-route: by name\r\n" + more + b"content-length: 4\r\n\r\n"
    assert kernel.packets == [head + b"body"]
    assert kernel.closed is not keep_alive


async def test_header_that_would_be_two_lines_is_refused() -> None:
    """What a server says must not become a header, or an answer, of its own."""
    kernel = Kernel()

    with pytest.raises(RuntimeError, match="header"):
        line(kernel).answer(200, [(b"x-route", b"a\r\nset-cookie: b")], b"")

    assert kernel.packets == []


async def test_stream_is_poured_up_to_its_last_events_and_while_the_caller_reads() -> None:
    """The last events leave with the end; who does not read must not fill the memory."""
    kernel = Kernel()
    there = line(kernel)
    there._cycle.response_started = there._cycle.chunked_encoding = True
    forwarder = StreamForwarder(there, StreamTap(strip=False))

    more = forwarder(b"data: 1\n\n")
    there._cycle.flow.pause_writing()
    slow = (forwarder(b"data: 2\n\n"), there.streams)
    there._cycle.flow.resume_writing()
    last = forwarder(b"data: 3\n\ndata: [DONE]\n\n")

    assert (more, slow, last) == (True, (False, False), False)
    assert kernel.packets == [b"9\r\ndata: 1\n\n\r\n", b"9\r\ndata: 2\n\n\r\n"]
    assert forwarder.ended() == b"data: 3\n\ndata: [DONE]\n\n"


async def test_event_without_end_is_told_when_the_forwarder_is_over() -> None:
    """Nothing may be raised into the event loop's read."""
    forwarder = StreamForwarder(line(Kernel()), StreamTap(strip=False))

    more = forwarder(b"data: " + b"x" * (MAX_EVENT_BYTES + 1))

    assert not more
    with pytest.raises(EventTooLong):
        forwarder.ended()


async def test_who_left_before_it_was_watched_has_left() -> None:
    """The connection may break between the request and the first look at it."""
    told, there = list[str](), line(Kernel())
    gone = line(Kernel())
    gone._cycle.disconnected = True

    gone.watch(lambda: told.append("gone"))
    end = there.watch(lambda: told.append("left"))
    there.lost()
    end()
    there.lost()

    assert told == ["gone", "left"]
    assert (gone.body(), there.body()) == (None, b"{}")
