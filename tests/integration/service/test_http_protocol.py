"""How long a caller may keep a connection: real sockets, and a server with little patience."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from hearth.service.http_protocol import TimeoutHttpProtocol
from moe_gateway.http.server import CorkedProtocol
from tests.conftest import served

DRIP_SECONDS = 0.1
GET = b"GET /here HTTP/1.1\r\nHost: x\r\n\r\n"
UNREAD = b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
UPGRADE = (
    b"GET /talk HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
"""What Java's HTTP client says with every request to an address without TLS."""


class Hasty(TimeoutHttpProtocol):
    """Ours, but a test need not wait for twenty seconds."""

    head_seconds = 1.0
    body_seconds = 2.0


async def here(request: Request) -> Response:
    return PlainTextResponse("here")


async def echo(request: Request) -> Response:
    """What was sent, in two pieces of an answer whose length nobody knows."""
    body = await request.body()

    async def pieces() -> AsyncIterator[bytes]:
        yield body
        yield body

    return StreamingResponse(pieces(), media_type="text/plain")


async def begin(request: Request) -> Response:
    """An answer that has begun, and does not end."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"begun"
        await asyncio.Event().wait()

    return StreamingResponse(pieces(), media_type="text/plain")


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
def house(http: type[TimeoutHttpProtocol]) -> Iterator[tuple[str, int]]:
    """The address of a service that speaks this."""
    routes = [
        Route("/here", here),
        Route("/unread", here, methods=["POST"]),
        Route("/echo", echo, methods=["POST"]),
        Route("/begin", begin),
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


def until(end: bytes, connection: socket.socket) -> bytes:
    """Return what comes up to and with `end`."""
    seen = b""
    while not seen.endswith(end):
        piece = connection.recv(65536)
        assert piece, seen
        seen += piece
    return seen


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
    http: type[TimeoutHttpProtocol], drip: bytes
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


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
def test_offer_of_another_protocol_costs_no_request_its_body(
    http: type[TimeoutHttpProtocol],
) -> None:
    """Java's HTTP client offers HTTP/2 with each request; it is answered in HTTP/1.1, time after
    time, and what a body says of an upgrade stays as it is."""
    said = b"GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n"
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n" % (H2C, len(said))
    amid, end = head.index(b"Upgrade") + 3, len(head)
    cuts = (9, amid, end - 2, end, end + 9, end + len(said))
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for cut in cuts:
            connection.sendall((head + said)[:cut])
            time.sleep(0.02)  # So they are read apart, mostly.
            connection.sendall((head + said)[cut:])
            answer = answers(connection, 1)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.count(said) == 2


def answers(connection: socket.socket, count: int) -> bytes:
    """All that comes until so many streams have ended."""
    answer = b""
    while answer.count(b"\r\n0\r\n\r\n") < count:
        answer += connection.recv(65536)
    return answer


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
def test_offers_in_a_row_are_all_passed_over(http: type[TimeoutHttpProtocol]) -> None:
    """Requests that are sent before the first one is answered, in chunks, in odd letters: each is
    answered in its turn, with its own body."""
    line = H2C.replace(b"Upgrade: h2c", b"UPGRADE:websocket, h2c")
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\n%sTransfer-Encoding: chunked\r\n\r\n" % line
    wire = b"".join(b"%s5\r\nbody%d\r\n0\r\n\r\n" % (head, number) for number in range(5))
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(wire)
        answer = answers(connection, 5)

    assert answer.count(b"HTTP/1.1 200") == 5
    said = [answer.index(b"body%d" % number) for number in range(5)]
    assert said == sorted(said)


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
def test_offer_of_who_wants_one_answer_only_is_passed_over(http: type[TimeoutHttpProtocol]) -> None:
    """`close` beside it ends the connection after the answer, not before."""
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\n%sContent-Length: 2\r\n\r\nhi"
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(head % H2C.replace(b"Upgrade,", b"Upgrade, close,"))
        answer = until_closed(connection)

    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"hi") == 2


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
def test_service_is_no_proxy(http: type[TimeoutHttpProtocol]) -> None:
    """A tunnel is no request, whatever else stands in its head."""
    tunnel = b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n%s\r\n" % H2C
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(tunnel + GET)
        answer = until_closed(connection)

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
@pytest.mark.parametrize("wrong", [b"hello\r\n\r\n", GET[:-2] + b"X: \x00\r\n\r\n", GET[:9]])
def test_what_is_no_http_is_refused_in_the_form_of_every_error(
    http: type[TimeoutHttpProtocol], wrong: bytes
) -> None:
    """Clients show people its message, and the gateway says who has refused."""
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(GET)
        until(b"here", connection)
        connection.sendall(wrong)
        head, _, body = until_closed(connection).partition(b"\r\n\r\n")

    error = json.loads(body)["error"]
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-length: %d\r\n" % len(body) in head
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_http")
    assert "request" in error["message"]
    told = (b"x-hearth-route: refused: invalid_http\r\n", b"x-request-id: req_")
    assert [line in head for line in told] == [http is HastyGateway] * 2


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
@pytest.mark.parametrize("between", [b"", GET])
def test_answer_that_is_under_way_gets_no_other_into_it(
    http: type[TimeoutHttpProtocol], between: bytes
) -> None:
    """It would be read as a piece of it; who sends such a thing sees that the answer breaks off."""
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(GET.replace(b"here", b"begin") + between)
        until(b"begun\r\n", connection)
        connection.sendall(b"hello\r\n\r\n")

        assert until_closed(connection) == b""


@pytest.mark.parametrize("http", [Hasty, HastyGateway])
def test_caller_of_http_1_0_gets_no_chunks(http: type[TimeoutHttpProtocol]) -> None:
    """Small machines speak it, to be spared them; what they read ends with the connection."""
    request = b"POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"
    with house(http) as address, socket.create_connection(address, timeout=60) as connection:
        connection.sendall(request)
        head, _, body = until_closed(connection).partition(b"\r\n\r\n")

    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert body == b"hihi"


@pytest.mark.parametrize("drip", [b"", b"x"])
def test_half_a_request_is_ended(address: tuple[str, int], drip: bytes) -> None:
    """Anyone on the network could hold connections and memory for good, with a body that stops in
    the middle or goes on with a byte now and then."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhalf")

        answer = until_closed(connection, drip)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "request_timeout"


def test_body_that_comes_in_pieces_is_taken(address: tuple[str, int]) -> None:
    """A slow line is no attack: only silence counts, not the time that all of it takes."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n")
        for _ in range(10):
            time.sleep(3 * DRIP_SECONDS)
            connection.sendall(b"x" * 300)
        answer = until(b"\r\n0\r\n\r\n", connection)

    assert answer.count(b"x") >= 3000
