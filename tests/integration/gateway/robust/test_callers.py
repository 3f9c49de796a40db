"""Callers who are slow, gone, hostile or many: on raw sockets, against the gateway as a process."""

import contextlib
import json
import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, KEY, Json, Lab, chat, wait_until
from tests.integration.gateway.robust.process import Gateway

ABORTS = 1000


class House:
    """A gateway process in front of a scripted model."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.lab, self.folder = Lab(stack, folder), folder
        self.model = ScriptedModel()
        self.model.when("long").say("word " * 500, pause=0.02)
        self.model.when("silent").hang()
        self.instance = self.lab.expert(self.model, slots=16, stops_unary=False)
        self.gateway = stack.enter_context(
            Gateway(folder, self.instance, BODY_SECONDS="1", MAX_BODY_BYTES="100000")
        )
        self.client = self.gateway.client

    def figure(self, name: str) -> float:
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def is_well(self) -> bool:
        return self.client.post(CHAT, json=chat("fine")).status_code == 200


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(stack, tmp_path_factory.mktemp("gateway"))


def request(body: Json, **headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = {"Host": "x", "Authorization": f"Bearer {KEY}", "Content-Length": str(len(data))}
    head = "".join(f"{name}: {value}\r\n" for name, value in (lines | headers).items())
    return f"POST {CHAT} HTTP/1.1\r\n{head}\r\n".encode() + data


def answer_to(house: House, data: bytes, *, half_close: bool = False) -> bytes:
    """All that comes back on a connection of its own."""
    with house.gateway.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        return whole(connection)


def whole(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            answer += piece
    return answer


def test_thousand_aborts_leave_nothing_behind(house: House) -> None:
    """In the head, the body, the queue, before the first word, in mid-answer, whole and streamed:
    no slot, no connection, no task stays."""
    assert house.is_well()
    before = {name: house.figure(name) for name in ("process_open_fds", "moe_gateway_tasks")}
    dice = random.Random(6)
    plans = [(dice.choice(("long", "silent")), dice.random(), n % 2) for n in range(ABORTS)]

    def abort(plan: tuple[str, float, int]) -> None:
        text, moment, stream = plan
        data = request(chat(text, stream=bool(stream)))
        with house.gateway.connect() as connection:
            if moment < 0.2:
                connection.sendall(data[: int(len(data) * moment * 5)])
                return
            connection.sendall(data)
            if text == "long" and stream and moment > 0.8:
                connection.recv(100)
            else:
                time.sleep(moment * 0.01)

    with ThreadPoolExecutor(32) as callers:
        list(callers.map(abort, plans))

    wait_until(lambda: house.figure("moe_gateway_in_flight") == 0, 60)
    wait_until(lambda: house.model.running == 0, 60)
    for name, count in before.items():
        wait_until(lambda name=name, count=count: house.figure(name) <= count + 8, 60)  # type: ignore[misc]
    assert house.figure("moe_gateway_waiting") == 0
    assert house.is_well()


def test_slow_senders_hold_up_nobody_and_are_sent_away(house: House) -> None:
    """Two hundred connections that drip: the others are served meanwhile; 408 in the end."""
    data = request(chat("x" * 100))
    with ExitStack() as stack:
        slow = [stack.enter_context(house.gateway.connect()) for _ in range(200)]
        for number, connection in enumerate(slow):
            connection.sendall(data[: 20 + number])
        for connection in slow[150:]:
            connection.sendall(b" ")
        assert all(house.is_well() for _ in range(5))
        answers = [whole(connection) for connection in slow[-2:]]

    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers)
    assert b'"code":"request_timeout"' in answers[0]


def test_head_without_end_is_cut_off(house: House) -> None:
    """It must not fill the memory."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nX-Long: " + b"x" * 2_000_000
    assert answer_to(house, head).startswith(b"HTTP/1.1 400")
    many = b"GET /health HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(100_000))
    assert answer_to(house, many).startswith(b"HTTP/1.1 400")
    assert house.is_well()


def test_oversized_bodies_are_cut_off(house: House) -> None:
    """Whether their length is told or not, and before all of it has come."""
    told = request(chat("x"), **{"Content-Length": "99999999999"})
    chunk = b"%x\r\n%s\r\n" % (50_000, b"x" * 50_000)
    head = request(chat("")).partition(b"Content-Length")[0]
    open_end = head + b"Transfer-Encoding: chunked\r\n\r\n"

    assert answer_to(house, told).startswith(b"HTTP/1.1 413")
    assert answer_to(house, open_end + chunk * 3).startswith(b"HTTP/1.1 413")
    assert house.is_well()


BAD = [
    b"\r\n\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
    b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 0x5\r\n\r\nhello",
    b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nX\r\n: y\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nX: a\x00b\r\n\r\n",
    b"POST http://127.0.0.1:1/v1/chat/completions HTTP/1.1\r\nHost: a b\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /%00%0d%0a HTTP/1.1\r\nHost: x\r\n\r\n",
]


@pytest.mark.parametrize("data", BAD)
def test_malformed_request_is_refused_and_forgotten(house: House, data: bytes) -> None:
    """The next caller does not notice, and nothing of it reaches a model."""
    before = len(house.model.requests)
    answer = answer_to(house, data, half_close=True)

    assert answer[9:12] in (b"", b"400", b"401", b"404", b"501")
    assert len(house.model.requests) == before
    assert house.is_well()


SMUGGLED = request(chat("smuggled"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Transfer-Encoding": "chunked"},
        {"Transfer-Encoding": "chunked", "Content-Length": "4"},
        {"Transfer-Encoding": "identity, chunked"},
        {"Transfer-Encoding": "chunked, identity"},
        {"Transfer-Encoding": "xchunked"},
        {"Transfer-Encoding ": "chunked"},
        {"Transfer-Encoding": "\x0bchunked"},
        {"Connection": "Content-Length"},
        {"Connection": "Host, Authorization, X-Request-Id"},
    ],
)
def test_request_inside_a_request_reaches_no_model(house: House, headers: dict[str, str]) -> None:
    """However its length is told twice: what a server gets is framed by us, from what we read."""
    before = len(house.model.requests)
    body = chat("outer", smuggled=SMUGGLED.decode())
    answer_to(house, request(body, **headers) + b"0\r\n\r\n", half_close=True)
    assert house.is_well()

    seen = house.model.requests[before:]
    assert "smuggled" not in [one.body["messages"][0]["content"] for one in seen]
    assert all(one.headers["host"] != "x" for one in seen)


@pytest.mark.parametrize(
    "name", ["X-Request-Id", "X-Hearth-Domain", "X-Session-Id", "Content-Type", "User-Agent"]
)
@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1", "\x80\xff"])
def test_header_cannot_bring_another_one_along(house: House, name: str, value: str) -> None:
    """Neither to a server nor back to the caller."""
    before = len(house.model.requests)
    data = request(chat("x")).replace(b"Host: x", b"Host: x\r\n%s: %s" % (
        name.encode(), value.encode("latin-1"),
    ))  # fmt: skip
    answer = answer_to(house, data, half_close=True).partition(b"\r\n\r\n")[0].lower()

    assert b"x-evil" not in answer
    for one in house.model.requests[before:]:
        assert "\r" not in str(one.headers.values())
        assert one.headers.get("x-evil") in (None, "1")
        assert one.headers["x-request-id"].isascii()


def test_no_address_of_a_caller_is_ever_asked(house: House) -> None:
    """Whatever is an address in a request: only those of settings and discovery are asked, and what
    an engine would fetch itself does not reach it."""
    before = len(house.model.requests)
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.3)
        host = f"127.0.0.1:{trap.getsockname()[1]}"
        url = f"http://{host}/v1"
        part = {"type": "image_url", "image_url": {"url": f"{url}/cat.png"}}
        fields: Json = {"base_url": url, "api_base": url, "url": url, "user": url, "proxy": url}
        refused = []
        for model in ("small", url, f"small@{host}", f"openai/{url}"):
            answer = house.client.post(
                CHAT,
                json={"model": model, "messages": [{"role": "user", "content": [part]}], **fields},
                headers={"X-Forwarded-Host": host, "Forwarded": f"host={host}", "X-Base-Url": url},
            )
            refused.append(answer.json()["error"]["code"])
        seen = {"role": "user", "content": [{"type": "input_image", "image_url": f"{url}/cat.png"}]}
        answer = house.client.post("/v1/responses", json={"model": "small", "input": [seen]})
        refused.append(answer.json()["error"]["code"])
        assert refused == ["address_not_allowed"] * 5
        assert len(house.model.requests) == before
        answer_to(house, request(chat("x"), Host=host, Connection="close"))
        absolute = request(chat("x")).replace(b"POST /", f"POST {url}/../".encode())
        answer_to(house, absolute, half_close=True)
        house.client.post("/v1/responses", json={"model": "small", "input": "x", **fields})
        with pytest.raises(TimeoutError):
            trap.accept()
