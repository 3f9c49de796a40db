"""How long a caller may keep a connection: real sockets, and a server with little patience."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from hearth.service.wire import BoundedHttp
from moe_gateway.callers.corked import CorkedProtocol
from tests.conftest import served

DRIP_SECONDS = 0.1
GET = b"GET /here HTTP/1.1\r\nHost: x\r\n\r\n"
UNREAD = b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
UPGRADE = (
    b"GET /talk HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Hasty(BoundedHttp):
    """Ours, but a test need not wait for twenty seconds."""

    head_seconds = 1.0


async def here(request: Request) -> Response:
    return PlainTextResponse("here")


async def talk(websocket: WebSocket) -> None:
    """Say a word when the time for a head is long over."""
    await websocket.accept()
    await websocket.receive_text()
    await websocket.send_text("still here")
    await websocket.close()


class HastyGateway(CorkedProtocol):
    """The same of the gateway, which keeps uvicorn's timers its own way."""

    head_seconds = 1.0


@contextlib.contextmanager
def house(http: type[BoundedHttp]) -> Iterator[tuple[str, int]]:
    """The address of a service that speaks this."""
    routes = [
        Route("/here", here),
        Route("/unread", here, methods=["POST"]),
        WebSocketRoute("/talk", talk),
    ]
    with served(Starlette(routes=routes), http) as url:
        where = urlsplit(url)
        yield where.hostname or "", where.port or 0


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with house(Hasty) as found:
        yield found


def until_closed(connection: socket.socket, drip: bytes = b"") -> bytes:
    """All that comes until the other side closes, while these bytes drip; a server that never does
    fails the test."""
    answer, over = b"", threading.Event()

    def drips() -> None:
        with contextlib.suppress(OSError):
            while drip and not over.wait(DRIP_SECONDS):
                connection.sendall(drip)

    dripping = threading.Thread(target=drips)
    dripping.start()
    try:
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                answer += piece
    finally:
        over.set()
        dripping.join()
    return answer


@pytest.mark.parametrize(
    ("begin", "drip"), [(b"", b""), (GET[:9], b""), (GET[:-2] + b"X-Long: ", b"x")]
)
def test_head_that_does_not_come_is_not_waited_for(
    address: tuple[str, int], begin: bytes, drip: bytes
) -> None:
    """Each byte of a head must not renew the time that all of it has."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(begin)
        answer = until_closed(connection, drip)

    assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
@pytest.mark.parametrize("drip", [b"", b"\r\n"])
def test_empty_line_after_an_answer_does_not_hold_the_connection(
    http: type[BoundedHttp], drip: bytes
) -> None:
    """It ends the wait for the next request, and begins none: one such line each would hold all the
    connections that there are, for ever."""
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(GET)
        assert connection.recv(65536).endswith(b"here")
        connection.sendall(b"\r\n")

        assert until_closed(connection, drip) == b""


def test_rest_of_a_body_that_nobody_reads_is_not_waited_for(address: tuple[str, int]) -> None:
    """The answer is out; who drips what belongs to the question gets no other one."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(UNREAD)
        answer = until_closed(connection, b"x")

    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"here")


def test_request_after_an_empty_line_is_answered(address: tuple[str, int]) -> None:
    """Old clients send one too many after a body (RFC 9112, section 2.2), and are no attack."""
    with socket.create_connection(address, timeout=60) as connection:
        for _ in range(3):
            connection.sendall(GET)
            assert connection.recv(65536).endswith(b"here")
            connection.sendall(b"\r\n")


def test_websocket_on_a_connection_that_was_used_before_stays(address: tuple[str, int]) -> None:
    """A conversation is longer than any head."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(GET)
        assert connection.recv(65536).endswith(b"here")
        connection.sendall(UPGRADE)
        assert connection.recv(65536).startswith(b"HTTP/1.1 101")
        connection.settimeout(Hasty.head_seconds * 2)
        with pytest.raises(TimeoutError):
            connection.recv(65536)
        connection.settimeout(60)
        connection.sendall(b"\x81\x82\x00\x00\x00\x00hi")
        assert b"still here" in connection.recv(65536)
