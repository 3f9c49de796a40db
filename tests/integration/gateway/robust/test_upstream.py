"""The gateway's own HTTP client against a server that does exactly what a test says."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

import pytest

from moe_gateway.http.connection import (
    Address,
    Connection,
    ConnectTimedOut,
    FirstByteTimedOut,
    IdleTimedOut,
    Lost,
    Unreachable,
)
from moe_gateway.http.headers import passed_back
from moe_gateway.http.pool import Pool
from moe_gateway.routing.discovery import busy_slots

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"

Script = Callable[[int, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Calls the script for each request, with its number counted from 1."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.connections = self.requests = 0
        self.address = Address("", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.requests += 1
                await self.script(self.requests, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client has what it wanted.
        finally:
            writer.close()


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Server]:
    server = Server(script)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.address = Address("127.0.0.1", listener.sockets[0].getsockname()[1])
    async with listener:
        yield server


def always(*pieces: bytes) -> Script:
    async def write(number: int, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return write


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(connect_timeout=30)
    yield pool
    pool.close()


async def ask(pool: Pool, server: Server, *, seconds: float = 60, reuse: bool = True) -> Connection:
    return await pool.ask(server.address, HEAD, b"", seconds=seconds, reuse=reuse)


async def until(happened: Callable[[], object]) -> None:
    """Look again and again, for a minute."""
    for _ in range(6000):
        if happened():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def answered(pool: Pool, server: Server) -> bytes:
    """The body of one whole exchange."""
    connection = await ask(pool, server)
    body = await connection.body(5, 1000)
    pool.release(connection)
    return body


async def test_connection_is_used_again(pool: Pool) -> None:
    """A new connection for each request costs more than the request."""
    async with serving(always(OK)) as server:
        bodies = [await answered(pool, server) for _ in range(3)]

    assert bodies == [b"ok"] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"surplus",
        OK + OK,
    ],
)
async def test_connection_is_not_used_again_when_its_state_is_in_doubt(
    pool: Pool, answer: bytes
) -> None:
    """One caller's bytes must never become another caller's answer."""
    async with serving(always(answer)) as server:
        first = await answered(pool, server)
        second = await answered(pool, server)

    assert (first, second) == (b"ok", b"ok")
    assert server.connections == 2


async def test_request_goes_over_a_new_connection_when_the_kept_one_was_closed(
    pool: Pool,
) -> None:
    """Servers close idle connections in the very moment in which we use them."""

    async def close_the_second(number: int, writer: asyncio.StreamWriter) -> None:
        if number == 2:
            writer.close()
        else:
            writer.write(OK)

    async with serving(close_the_second) as server:
        await answered(pool, server)
        assert await answered(pool, server) == b"ok"

    assert (server.connections, server.requests) == (2, 3)


async def test_connection_that_nobody_needs_any_more_is_closed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a rush of hundreds, the house would keep all of them open."""
    monkeypatch.setattr("moe_gateway.http.pool.MAX_IDLE_SECONDS", 0.01)
    async with serving(always(OK)) as server:
        connection = await ask(pool, server)
        await connection.body(60, 1000)
        pool.release(connection)
        resting = connection.resting_in
        await until(lambda: not resting)

        assert await answered(pool, server) == b"ok"

    assert server.connections == 2


async def test_connection_that_the_server_closes_is_forgotten_at_once(pool: Pool) -> None:
    """Also those to servers that never get a second request on one connection."""
    closed = asyncio.Event()

    async def close_when_told(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await closed.wait()
        writer.close()

    async with serving(close_when_told) as server:
        connection = await ask(pool, server)
        await connection.body(60, 1000)
        pool.release(connection)
        resting = list(connection.resting_in or ())
        closed.set()
        await until(lambda: not connection.resting_in)

    assert (resting, connection.reusable) == ([connection], False)


async def test_new_connection_that_breaks_is_not_asked_again(pool: Pool) -> None:
    """The server may have begun to work on it."""

    async def close(number: int, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with serving(close) as server:
        with pytest.raises(Lost, match="closed"):
            await ask(pool, server)

    assert server.requests == 1


async def test_requests_with_effects_never_use_a_kept_connection(pool: Pool) -> None:
    """They could be sent twice."""
    async with serving(always(OK)) as server:
        await answered(pool, server)
        await ask(pool, server, reuse=False)

    assert server.connections == 2


async def test_body_without_length_ends_with_the_connection(pool: Pool) -> None:
    """HTTP/1.0 servers answer so."""

    async def until_close(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        writer.close()

    async with serving(until_close) as server:
        assert await answered(pool, server) == b"all of it"


async def test_body_without_length_that_is_reset_is_lost(pool: Pool) -> None:
    """A server that crashes ends nothing: half a document would be taken for a whole one."""

    async def reset(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        await asked.wait()
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()

    asked = asyncio.Event()
    async with serving(reset) as server:
        connection = await ask(pool, server)
        asked.set()
        with pytest.raises(Lost, match="reset"):
            await connection.body(60, 1000)
        pool.release(connection)


async def test_request_whose_answer_has_begun_is_not_sent_again(pool: Pool) -> None:
    """A kept connection that was closed while idle shows it before a byte of an answer."""

    async def break_the_second(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(OK if number == 1 else OK[:20])
        if number > 1:
            writer.close()

    async with serving(break_the_second) as server:
        await answered(pool, server)
        with pytest.raises(Lost, match="closed"):
            await ask(pool, server)

    assert server.requests == 2


async def test_interim_answer_is_passed_over(pool: Pool) -> None:
    """`100 Continue` is no answer."""
    async with serving(always(b"HTTP/1.1 100 Continue\r\n\r\n", OK)) as server:
        assert await answered(pool, server) == b"ok"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 4\r\n\r\nokok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nok",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\rContent-Length: 2\r\rok",
    ],
)
async def test_what_is_no_http_is_lost(pool: Pool, answer: bytes) -> None:
    """A wrong port in the settings must not hang callers; and an answer whose end can be read in
    two ways (response splitting) ends nowhere."""
    async with serving(always(answer)) as server:
        with pytest.raises(Lost, match="not valid HTTP"):
            await ask(pool, server)


@pytest.mark.parametrize(
    "chunks",
    [
        b"10000000000000000\r\nok\r\n0\r\n\r\n",
        b"0x2\r\nok\r\n0\r\n\r\n",
        b"-2\r\nok\r\n0\r\n\r\n",
        b"1\r\nok\r\n0\r\n\r\n",
        b"2\nok\n0\n\n",
        b"2\r\nok\r\n0\r\nContent-Length: 9\r\n\r\n",
    ],
)
async def test_chunks_that_can_be_read_in_two_ways_are_lost(pool: Pool, chunks: bytes) -> None:
    """Where one reader sees the end of an answer, another one sees more of it."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(always(head + chunks)) as server:
        with pytest.raises(Lost):
            await answered(pool, server)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_what_follows_an_answer_is_not_the_next_one(pool: Pool, status: bytes) -> None:
    """A body where none may be is no answer to the request that comes next."""
    stray = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"
    answers = [b"HTTP/1.1 %s\r\n\r\n%s" % (status, stray), OK]

    async def one_more(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(answers[number > 1])

    async with serving(one_more) as server:
        first = await ask(pool, server)
        assert await first.body(5, 1000) == b""
        pool.release(first)
        assert await answered(pool, server) == b"ok"


async def test_caller_gets_no_line_that_is_about_the_servers_connection(pool: Pool) -> None:
    """`Transfer-Encoding` beside a length would split the caller's answer in two."""
    lines = (
        b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n"
        b"Trailer: Content-Length\r\nProxy-Authenticate: Basic\r\nSet-Cookie: a=b\r\nServer: s\r\n"
        b"X-Hearth-Expert: forged\r\nX-Request-Id: theirs\r\nAccess-Control-Allow-Origin: *\r\n"
        b"X-Own: 1\r\n\r\n"
    )
    body = b"2\r\nok\r\n0\r\n\r\n"
    async with serving(always(b"HTTP/1.1 200 OK\r\n" + lines + body)) as server:
        connection = await ask(pool, server)
        assert await connection.body(60, 1000) == b"ok"
        pool.release(connection)

    assert passed_back(connection) == [(b"x-own", b"1")]


async def test_chunked_body_that_breaks_off_is_lost(pool: Pool) -> None:
    """Half an answer is not an answer."""

    async def half(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        writer.close()

    async with serving(half) as server:
        connection = await ask(pool, server)
        assert await connection.piece(5) == b"ok"
        with pytest.raises(Lost):
            await connection.piece(5)
        pool.release(connection)


async def test_endless_answer_is_given_up(pool: Pool) -> None:
    """An answer that is not streamed is held in memory: it has a limit."""
    big = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
    async with serving(always(big)) as server:
        connection = await ask(pool, server)
        with pytest.raises(Lost, match="larger than 1000 bytes"):
            await connection.body(5, 1000)
        connection.abort()


async def test_silence_has_its_own_error_in_each_phase(pool: Pool) -> None:
    """Who reads it knows which setting to look at."""
    async with serving(always()) as server:
        with pytest.raises(FirstByteTimedOut, match="FIRST_BYTE_TIMEOUT"):
            await ask(pool, server, seconds=0.05)
    async with serving(always(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")) as server:
        connection = await ask(pool, server)
        with pytest.raises(IdleTimedOut, match="IDLE_TIMEOUT"):
            await connection.piece(0.05)
        connection.abort()


async def test_nobody_there_is_unreachable(pool: Pool) -> None:
    """The message names the address and the reason."""
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9: Connection refused"):
        await pool.ask(Address("127.0.0.1", 9), HEAD, b"", seconds=1)


@pytest.mark.parametrize("host", ["nas..lan", "no-such-machine.invalid"])
async def test_name_that_nobody_has_is_told_as_that(pool: Pool, host: str) -> None:
    """A typing mistake in the settings must neither end what watches all nor be a riddle."""
    with pytest.raises(Unreachable, match=f"^{host}:80: this name is unknown here"):
        await pool.get(Address(host, 80), "/health", key=b"", seconds=60)


async def test_full_listener_runs_into_the_connect_timeout() -> None:
    """A machine that swallows packets answers nothing at all; a full queue does the same."""
    with ExitStack() as sockets:
        full = sockets.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(full.getsockname())

        address = Address(*full.getsockname())
        with pytest.raises(ConnectTimedOut, match="CONNECT_TIMEOUT"):
            await Pool(connect_timeout=0.2).ask(address, HEAD, b"", seconds=1)


async def test_slow_reader_holds_the_server_back(pool: Pool) -> None:
    """A caller on a bad line must not fill the gateway's memory."""
    size, sent = 64 * 1024 * 1024, asyncio.Event()

    async def much(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            writer.write(b"x" * (size // 64))
            await writer.drain()
        sent.set()

    async with serving(much) as server:
        connection = await ask(pool, server)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sent.wait(), 0.3)
        first = await connection.piece(60)
        rest = await connection.body(60, size)
        pool.release(connection)

    assert len(first) < 1024 * 1024
    assert len(first) + len(rest) == size


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"


def when_told(more: "asyncio.Queue[bytes]") -> Script:
    """A first piece, `a`, then each one that is told; none is the end of the connection."""

    async def write(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        while data := await more.get():
            writer.write(data)
        writer.close()

    return write


async def test_pieces_are_poured_until_the_sink_has_enough(pool: Pool) -> None:
    """A caller who reads too slowly gets the rest at his own pace, and all of it once."""
    more, poured = asyncio.Queue[bytes](), list[bytes]()
    async with serving(when_told(more)) as server:
        connection = await ask(pool, server)
        first = await connection.piece(5)

        def sink(data: bytes) -> bool:
            poured.append(data)
            more.put_nowait(b"1\r\nc\r\n" if data == b"b" else b"1\r\nd\r\n0\r\n\r\n")
            return data == b"b"

        more.put_nowait(b"1\r\nb\r\n")
        await connection.pour(60, sink)
        rest = await connection.body(60, 100)
        more.put_nowait(b"")
        pool.release(connection)

    assert (first, poured, rest) == (b"a", [b"b", b"c"], b"d")


async def test_pouring_ends_as_the_answer_does(pool: Pool) -> None:
    """A fault in mid-stream, silence and the end are what they are when pieces are waited for."""
    for told, ending in ((b"", Lost), (None, IdleTimedOut), (b"0\r\n\r\n", None)):
        more = asyncio.Queue[bytes]()
        async with serving(when_told(more)) as server:
            connection = await ask(pool, server)
            await connection.piece(5)
            if told is not None:
                more.put_nowait(told)
            if ending is None:
                await connection.pour(60, lambda _data: True)
            else:
                with pytest.raises(ending):
                    await connection.pour(0.1 if told is None else 60, lambda _data: True)
            more.put_nowait(b"")
            connection.abort()


async def test_what_has_come_already_is_not_poured(pool: Pool) -> None:
    """Pieces keep their order."""
    async with serving(always(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")) as server:
        connection = await ask(pool, server)
        connection.on_body(b"a")
        await connection.pour(60, lambda _data: False)
        piece = await connection.piece(5)
        connection.abort()

    assert piece == b"a"


async def test_cancelled_wait_closes_the_connection(pool: Pool) -> None:
    """That is how a hang-up reaches a server that still reads the prompt."""
    asked, gone = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        assert await reader.read() == b""
        gone.set()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as listener:
        address = Address("127.0.0.1", listener.sockets[0].getsockname()[1])
        task = asyncio.ensure_future(pool.ask(address, HEAD, b"", seconds=60))
        await asked.wait()
        task.cancel()
        await asyncio.wait_for(gone.wait(), 60)


@pytest.mark.parametrize(
    ("url", "address", "authority"),
    [
        ("http://127.0.0.1:8081/", Address("127.0.0.1", 8081), "127.0.0.1:8081"),
        (
            "https://example.org/llm/",
            Address("example.org", 443, tls=True, path="/llm"),
            "example.org:443",
        ),
        ("http://[::1]:81", Address("::1", 81), "[::1]:81"),
    ],
)
def test_address_is_read_off_a_url(url: str, address: Address, authority: str) -> None:
    """Settings have URLs, connections need hosts and ports."""
    assert Address.of(url) == address
    assert address.authority == authority


@pytest.mark.parametrize(
    ("body", "busy"),
    [
        (b'[{"is_processing": true}, {"is_processing": false}, {"is_processing": true}]', 2),
        (b"[]", 0),
        (b'[{"id": 0}]', 0),
        (b'[{"is_processing": true}, 7]', 0),
        (b'{"error": {"message": "no slots"}}', 0),
        (b"<html>", 0),
        (b"null", 0),
    ],
)
def test_slots_are_counted_where_a_server_tells_them(body: bytes, busy: int) -> None:
    """Not all do, and none is worse for it: its own requests are known without asking."""
    assert busy_slots(body) == busy
