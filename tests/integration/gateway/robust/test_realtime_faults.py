"""Faults of agents and callers in `/v1/realtime`: each ends or moves one session, and no other."""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.types import Receive, Scope, Send
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from hearth.openai_api.testing import ScriptedModel
from moe_gateway.api import realtime
from tests.integration.gateway.conftest import KEY, Json, Lab, wait_until
from tests.integration.gateway.robust.process import Gateway

EXTENDED_INPUTS = ["moe_gateway/http/**", "moe_gateway/api/**"]

MEGABYTE = 1 << 20
EVENTS = 3000
SECONDS = 60.0


class Agent:
    """An agent whose sessions return each event, or hang in the given way."""

    def __init__(self, lab: Lab, stack: ExitStack, hangs: str = "never") -> None:
        self._app, self._hangs = ScriptedModel().app, hangs
        self._released = threading.Event()
        self.opened, self.left = threading.Event(), threading.Event()
        self.settings: Json = lab.at(lab.serve(self), lists_models=True)
        stack.callback(self._released.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        await receive()
        self.opened.set()
        if self._hangs == "before it accepts":
            await receive()
            self.left.set()
            return
        await send({"type": "websocket.accept"})
        if self._hangs == "after it has accepted":
            self._released.wait(SECONDS)  # The whole event loop: it reads nothing any more.
        while (message := await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": message["text"]})
        self.left.set()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def lab(stack: ExitStack, tmp_path: Path) -> Lab:
    return Lab(stack, tmp_path)


def session(gateway: httpx2.Client, *, pings: bool = True) -> ClientConnection:
    """Open a session at the gateway."""
    url = str(gateway.base_url).replace("http", "ws", 1).rstrip("/")
    return connect(
        f"{url}/v1/realtime?model=small",
        additional_headers={"authorization": f"Bearer {KEY}"},
        open_timeout=SECONDS,
        max_size=None,
        ping_interval=20 if pings else None,
    )


def gateway_of(lab: Lab, *agents: Agent, **settings: Any) -> httpx2.Client:
    expert = lab.expert(ScriptedModel())
    return lab.gateway(expert, *(agent.settings for agent in agents), **settings)


def returns(talk: ClientConnection, text: str) -> bool:
    """Whether an event comes back."""
    talk.send(text)
    return talk.recv(SECONDS) == text


def vanish(connection: socket.socket) -> None:
    """Reset the connection, as a machine does that has lost its program."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_agent_that_does_not_accept_is_passed_over(lab: Lab, stack: ExitStack) -> None:
    """The handshake has a time limit; the next agent gets the session."""
    hung, well = Agent(lab, stack, "before it accepts"), Agent(lab, stack)
    gateway = gateway_of(lab, hung, well, first_byte_timeout=0.5)

    with session(gateway) as talk:
        assert talk.response is not None
        route = talk.response.headers["x-hearth-route"]
        assert returns(talk, "hello")

    assert hung.opened.is_set()
    assert hung.left.wait(SECONDS)
    assert urlsplit(well.settings["url"]).netloc in route


def test_handshake_is_shorter_than_the_patience_of_clients() -> None:
    """The official client waits 10 s; all agents have to fit in."""
    assert realtime.HANDSHAKE_SECONDS < 10


def test_session_that_no_agent_accepts_is_refused(lab: Lab, stack: ExitStack) -> None:
    """With a status and a reason, before the WebSocket exists."""
    hung = Agent(lab, stack, "before it accepts")
    gateway = gateway_of(lab, hung, first_byte_timeout=0.3)

    with pytest.raises(InvalidStatus) as refused:
        session(gateway)

    assert refused.value.response.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert b"timed out" in refused.value.response.body


def test_caller_that_vanishes_in_the_handshake_ends_it(lab: Lab, stack: ExitStack) -> None:
    """The agent is not kept waiting for a caller that has gone."""
    hung = Agent(lab, stack, "before it accepts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(realtime, "HANDSHAKE_SECONDS", 10 * SECONDS)
        gateway = gateway_of(lab, hung)
        connection = raw(gateway)
        assert hung.opened.wait(SECONDS)
        vanish(connection)

        assert hung.left.wait(SECONDS)


def raw(gateway: httpx2.Client, *more: bytes) -> socket.socket:
    """Send the request for a session on a socket."""
    where = urlsplit(str(gateway.base_url))
    lines = [
        b"GET /v1/realtime?model=small HTTP/1.1", b"Host: x", b"Connection: Upgrade",
        b"Upgrade: websocket", b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Authorization: Bearer " + KEY.encode(),
        *more,
    ]  # fmt: skip
    connection = socket.create_connection((where.hostname or "", where.port or 0), timeout=SECONDS)
    connection.sendall(b"\r\n".join([*lines, b"", b""]))
    return connection


def test_caller_that_vanishes_ends_its_session(lab: Lab, stack: ExitStack) -> None:
    """Without the closing handshake; the next session is served."""
    agent = Agent(lab, stack)
    gateway = gateway_of(lab, agent)
    connection = raw(gateway)
    assert connection.recv(100).startswith(b"HTTP/1.1 101")

    vanish(connection)

    assert agent.left.wait(SECONDS)
    with session(gateway) as talk:
        assert returns(talk, "hello")


@pytest.mark.extended
@pytest.mark.parametrize("reads", [True, False])
def test_session_of_an_agent_that_hangs_is_closed(
    lab: Lab, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, *, reads: bool
) -> None:
    """It answers no ping, also while events for it wait to be read."""
    monkeypatch.setattr(realtime, "PING_SECONDS", 0.3)
    hung = Agent(lab, stack, "after it has accepted")
    gateway = gateway_of(lab, hung)

    with session(gateway, pings=False) as talk:
        if not reads:
            with contextlib.suppress(OSError, ValueError):  # The client may have closed it already.
                filled(talk.socket, 64 * MEGABYTE)
        with pytest.raises(ConnectionClosed) as closed:
            talk.recv(SECONDS)

    code = None if closed.value.rcvd is None else closed.value.rcvd.code
    assert code == realtime.AGENT_LOST or not reads  # Unread events turn the end into a reset.


def test_message_that_is_too_large_ends_its_session(lab: Lab, stack: ExitStack) -> None:
    """And no other."""
    agent = Agent(lab, stack)
    gateway = gateway_of(lab, agent)
    with session(gateway) as other:
        with session(gateway) as talk:
            with contextlib.suppress(ConnectionClosed):
                talk.send("x" * (realtime.LARGEST_MESSAGE + 1))
            with pytest.raises(ConnectionClosed) as closed:
                talk.recv(SECONDS)
        assert returns(other, "hello")

    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
    assert agent.left.wait(SECONDS)


def test_header_line_that_is_too_long_is_refused(lab: Lab, stack: ExitStack) -> None:
    """Before an agent is asked."""
    agent = Agent(lab, stack)
    gateway = gateway_of(lab, agent)
    with contextlib.suppress(ConnectionError), raw(gateway, b"X: " + b"x" * MEGABYTE) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 4")

    assert not agent.opened.is_set()
    with session(gateway) as talk:
        assert returns(talk, "hello")


def test_many_small_events_keep_their_order(lab: Lab, stack: ExitStack) -> None:
    """None is lost and none is joined to another."""
    gateway = gateway_of(lab, Agent(lab, stack))
    texts = [f'{{"n": {n}}}' for n in range(EVENTS)]
    with session(gateway) as talk:

        def send() -> None:
            for text in texts:
                talk.send(text)

        sender = threading.Thread(target=send)
        sender.start()
        received = [talk.recv(SECONDS) for _ in texts]
        sender.join()

    assert received == texts


def test_agent_that_stops_reading_slows_its_caller_down(
    lab: Lab, stack: ExitStack, tmp_path: Path
) -> None:
    """The gateway keeps little of what the caller sends, and serves the others."""
    hung, expert = Agent(lab, stack, "after it has accepted"), lab.expert(ScriptedModel())
    gateway = stack.enter_context(Gateway(tmp_path, expert, hung.settings))
    wait_until(lambda: gateway.client.get("/v1/models").status_code == 200)
    with contextlib.suppress(ConnectionClosed), session(gateway.client) as talk:
        before = resident(gateway.child.pid)
        sent = filled(talk.socket, 256 * MEGABYTE)
        grown = resident(gateway.child.pid) - before
        assert gateway.client.get("/v1/models").status_code == 200
        gateway.child.kill()

    assert sent < 64 * MEGABYTE
    assert grown < 64 * MEGABYTE


def filled(connection: socket.socket, most: int) -> int:
    """Send events until the connection takes no more for 3 s; return the number of bytes."""
    event = Frame(Opcode.TEXT, b"x" * 65536).serialize(mask=True)
    sent = 0
    rest = event
    while sent < most and select.select([], [connection], [], 3)[1]:
        with contextlib.suppress(BlockingIOError):
            taken = connection.send(rest, socket.MSG_DONTWAIT)
            sent, rest = sent + taken, rest[taken:] or event
    return sent


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])
