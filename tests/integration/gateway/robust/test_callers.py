"""Callers who are slow, gone, hostile or many: on raw sockets, against the gateway as a process."""

import contextlib
import json
import random
import select
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

    def gone(self) -> float:
        """How many callers hung up before the end of their answer."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if 'status="gone"' in line)

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
    moments = ("in the request", "soon", "later", "after a word", "after a word")
    plans = [(dice.choice(moments), dice.random(), n % 2 == 0) for n in range(ABORTS)]

    def abort(plan: tuple[str, float, bool]) -> None:
        moment, part, stream = plan
        with house.gateway.connect() as connection:
            if moment == "in the request":
                data = request(chat("long", stream=stream))
                connection.sendall(data[: int(len(data) * part)])
            elif moment == "after a word":
                connection.sendall(request(chat("long", stream=True)))
                assert b"HTTP/1.1 200" in connection.recv(100)
            else:
                connection.sendall(request(chat("silent", stream=stream)))
                time.sleep(part * (0.01 if moment == "soon" else 0.1))

    with ThreadPoolExecutor(32) as callers:
        list(callers.map(abort, plans))

    wait_until(lambda: house.figure("moe_gateway_in_flight") == 0, 60)
    wait_until(lambda: house.model.running == 0, 60)
    assert house.model.aborted > ABORTS // 4, "too few have come as far as the model"
    assert house.gone() > ABORTS // 4
    for name, count in before.items():
        wait_until(lambda name=name, count=count: house.figure(name) <= count + 8, 60)  # type: ignore[misc]
    assert house.figure("moe_gateway_waiting") == 0
    assert house.is_well()


def test_slow_senders_hold_up_nobody_and_are_sent_away(house: House) -> None:
    """Two hundred connections whose bodies drip: the others are served meanwhile, and no byte of
    theirs renews the time that they have. (Heads: `integration/service/test_http_protocol.py`.)"""
    data = request(chat("x" * 50_000))
    with ExitStack() as stack:
        slow = [stack.enter_context(house.gateway.connect()) for _ in range(200)]
        for number, connection in enumerate(slow):
            connection.sendall(data[: 200 + number])
        assert all(house.is_well() for _ in range(5))
        waiting, ends = set(slow), time.monotonic() + 60
        while waiting and time.monotonic() < ends:
            waiting.difference_update(select.select(waiting, [], [], 0)[0])
            for connection in waiting:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"x")
            time.sleep(0.05)
        assert not waiting, f"{len(waiting)} are waited for as long as they drip"
        answers = [whole(connection) for connection in slow]

    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 408"}
    assert all(b'"code":"request_timeout"' in answer for answer in answers)


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
    """The next caller does not notice, nothing of it reaches a model, and what is answered says
    why."""
    before = len(house.model.requests)
    answer = answer_to(house, data, half_close=True)

    assert answer[9:12] in (b"", b"400", b"401", b"404")
    if answer:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"\r\nx-hearth-route: refused: " in head
        assert json.loads(body)["error"]["message"]
    assert len(house.model.requests) == before
    assert house.is_well()


def test_websocket_is_refused_where_there_is_none(house: House) -> None:
    """The refusal is an ordinary HTTP response that names the path with a WebSocket, and the next
    request is answered."""
    lines = b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    answer = answer_to(house, b"GET /health HTTP/1.1\r\n%s%s\r\n" % (lines, key), half_close=True)

    assert answer.startswith(b"HTTP/1.1 404")
    assert b"/health is not a WebSocket; /v1/realtime is one." in answer
    assert house.is_well()


@pytest.mark.parametrize("stream", [False, True])
def test_caller_of_http_1_0_gets_the_whole_answer(house: House, *, stream: bool) -> None:
    """Without chunks, which it does not know; small machines and old proxies speak it."""
    data = request(chat("one two", stream=stream)).replace(b"HTTP/1.1", b"HTTP/1.0")
    head, _, body = answer_to(house, data).partition(b"\r\n\r\n")

    assert b"transfer-encoding" not in head
    assert body.startswith(b"data: {" if stream else b"{")
    assert body.endswith(b"data: [DONE]\n\n" if stream else b"}")


def test_offer_of_http_2_is_passed_over(house: House) -> None:
    """Java's HTTP client makes it with each request (h2c)."""
    named = "Upgrade, HTTP2-Settings, close"
    offer = {"Connection": named, "Upgrade": "h2c", "HTTP2-Settings": "AA"}
    before = len(house.model.requests)
    answer = answer_to(house, request(chat("one two"), **offer))

    assert answer.startswith(b"HTTP/1.1 200")
    (seen,) = house.model.requests[before:]
    assert not {"upgrade", "http2-settings"} & seen.headers.keys()


SMUGGLED = request(chat("smuggled"))
PROBE = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
"""An honest request that follows each attack: whatever comes before it, the connection ends."""
CHUNKED = b"Transfer-Encoding: chunked"
LAST = b"0\r\n\r\n" + SMUGGLED
"""The end of a body in chunks, and a request behind it: for who reads a length, one body."""
FIRST = b"%x\r\n" % len(SMUGGLED)
INSIDE = FIRST + SMUGGLED + b"\r\n0\r\n\r\n"
"""A chunk that is a request: the second one for whom the length of the first line is the body's."""


def test_hot_requests_and_others_in_a_row_are_answered_in_their_turn(house: House) -> None:
    """Hot ones begin otherwise than all else; who mixes them on a connection does not see it."""
    said = [json.dumps(chat(word)).encode() for word in ("first", "second", "third")]
    key = f"Authorization: Bearer {KEY}".encode()
    query = outer(said[1], length(len(said[1]))).replace(b" HTTP/1.1", b"?a=b HTTP/1.1", 1)
    row = (
        outer(said[0], length(len(said[0]))),
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % key,
        query,
        b"GET /nowhere HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % key,
        outer(said[2], length(len(said[2])), b"Expect: 100-continue", b"Connection: close"),
    )

    answer = answer_to(house, b"".join(row))

    parts = (b'"first"', b'"object":"list"', b'"second"', b"HTTP/1.1 404 ", b'"third"')
    at = [answer.find(part) for part in parts]
    assert at == sorted(at), answer
    assert at[0] > 0
    assert answer.count(b"\r\nx-request-id: ") == len(row)


def length(count: int) -> bytes:
    return b"Content-Length: %d" % count


def outer(body: bytes, *lines: bytes, end: bytes = b"\r\n") -> bytes:
    """A request whose head holds these lines as they are."""
    head = [b"POST %s HTTP/1.1" % CHAT.encode(), b"Host: x", b"Authorization: Bearer "]
    head[-1] += KEY.encode()
    return end.join((*head, *lines, b"", b"")) + body


ATTACKS = {
    "CL.TE": outer(LAST, length(len(LAST)), CHUNKED),
    "TE.CL": outer(INSIDE, CHUNKED, length(len(FIRST))),
    "two lengths": outer(SMUGGLED, length(0), length(len(SMUGGLED))),
    "two lengths in one": outer(SMUGGLED, b"Content-Length: 0, %d" % len(SMUGGLED)),
    "length with a sign": outer(SMUGGLED, b"Content-Length: +0"),
    "length with a blank before the colon": outer(SMUGGLED, b"Content-Length : 0"),
    "length of two to the 64": outer(SMUGGLED, b"Content-Length: 18446744073709551616"),
    "chunked is not last": outer(LAST, b"Transfer-Encoding: chunked, identity"),
    "identity and a length": outer(LAST, b"Transfer-Encoding: identity", length(len(LAST))),
    "almost chunked": outer(LAST, b"Transfer-Encoding: xchunked", length(len(LAST))),
    "blank before the colon": outer(LAST, b"Transfer-Encoding : chunked", length(len(LAST))),
    "control character": outer(LAST, b"Transfer-Encoding: \x0bchunked", length(len(LAST))),
    "folded": outer(LAST, b"Transfer-Encoding:\r\n chunked", length(len(LAST))),
    "twice": outer(LAST, CHUNKED, b"Transfer-Encoding: identity", length(len(LAST))),
    "size as 0x0": outer(b"0x0\r\n\r\n" + SMUGGLED, CHUNKED),
    "size of 17 digits": outer(b"1" + b"0" * 16 + b"\r\n\r\n" + SMUGGLED, CHUNKED),
    "size with a sign": outer(b"-0\r\n\r\n" + SMUGGLED, CHUNKED),
    "chunk ends by a line feed": outer(b"0\n\n" + SMUGGLED, CHUNKED),
    "chunk is longer than told": outer(b"1\r\nxx0\r\n\r\n" + SMUGGLED, CHUNKED),
    "lines end by line feeds": outer(LAST, CHUNKED, end=b"\n"),
    "lines end by carriage returns": outer(LAST, CHUNKED, end=b"\r"),
}


def test_honest_second_request_is_answered(house: House) -> None:
    """So the next test would see one that was smuggled."""
    before = len(house.model.requests)
    by_length = outer(b"{}", length(2)) + SMUGGLED + PROBE
    by_chunks = outer(b"2;note=x\r\n{}\r\n" + LAST, CHUNKED) + PROBE

    for data in (by_length, by_chunks):
        answer = answer_to(house, data)
        assert answer.count(b"HTTP/1.1 ") == 3, answer
        assert b"smuggled" in answer
    seen = [one.body["messages"][0]["content"] for one in house.model.requests[before:]]
    assert seen == ["smuggled"] * 2


@pytest.mark.parametrize("name", ATTACKS)
def test_request_inside_a_request_is_not_one(house: House, name: str) -> None:
    """Where two ways to read it disagree, a proxy before us may have taken the other one: who came
    past the proxy with one request would have sent us two."""
    before = len(house.model.requests)
    answer = answer_to(house, ATTACKS[name] + PROBE)

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert house.is_well()
    seen = [one.body["messages"][0]["content"] for one in house.model.requests[before:]]
    assert seen == ["fine"]


@pytest.mark.parametrize("named", ["Content-Length", "Host, Authorization, X-Request-Id"])
def test_caller_names_no_line_of_ours_away(house: House, named: str) -> None:
    """What `Connection` lists is not sent on, but what a server gets is framed and named by us."""
    before = len(house.model.requests)
    answer = answer_to(house, request(chat("named"), Connection=f"close, {named}"))

    assert answer.startswith(b"HTTP/1.1 200")
    (seen,) = house.model.requests[before:]
    assert seen.headers["host"] != "x"
    assert {"authorization", "content-length", "x-request-id"} <= seen.headers.keys()


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


def test_text_of_a_body_becomes_no_line_of_a_head(house: House) -> None:
    """Names in it choose servers, and come back in headers."""
    before, evil = len(house.model.requests), "small\r\nX-Evil: 1\r\n\r\n"
    fields: Json = {"user": evil, "prompt_cache_key": evil, "safety_identifier": evil}
    metadata = {"domain": evil, "language": evil, evil: evil}

    unknown = house.client.post(CHAT, json=chat("x", evil))
    answers = [
        house.client.post(CHAT, json=chat("x", model, **fields, metadata=metadata))
        for model in ("small", "auto")
    ]

    assert unknown.status_code == 404
    assert [answer.status_code for answer in answers] == [200, 200]
    for answer in (unknown, *answers):
        assert "x-evil" not in answer.headers
        assert "Evil" not in str(answer.headers)
    seen = house.model.requests[before:]
    assert len(seen) == 2
    assert all("evil" not in str(one.headers).lower() for one in seen)


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


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
ASKED_WITHOUT_ADDRESS: dict[str, Json] = {
    CHAT: {"messages": [{"role": "user", "content": "x"}]},
    f"{CHAT} with a picture": {"messages": [{"role": "user", "content": [PICTURE]}]},
    "/v1/completions": {"prompt": "x"},
    "/v1/embeddings": {"input": "x"},
    "/api/chat": {"messages": [{"role": "user", "content": "x"}]},
    "/api/generate": {"prompt": "x"},
    "/v1/audio/speech": {"input": "x", "voice": "x"},
}


@pytest.mark.parametrize("asked", ASKED_WITHOUT_ADDRESS)
def test_server_that_a_caller_names_is_not_asked(house: House, asked: str) -> None:
    """In any field, header or model's name, on a request that is fine but for that: only servers of
    settings and discovery are asked."""
    path = asked.partition(" ")[0]
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.3)
        host = f"127.0.0.1:{trap.getsockname()[1]}"
        url = f"http://{host}/v1"
        names = ("base_url", "api_base", "endpoint", "server", "url", "host", "proxy", "user")
        fields: Json = dict.fromkeys(names, url) | {"metadata": {"base_url": url, "url": url}}
        lines = ("X-Base-Url", "X-Upstream", "X-Hearth-Url", "X-Hearth-Instance", "X-Hearth-Expert")
        headers = {
            **dict.fromkeys(lines, url), "X-Forwarded-Host": host, "Forwarded": f"host={host}",
            "X-Forwarded-For": host, "X-Original-Url": url, "X-Rewrite-Url": url, "Host": host,
        }  # fmt: skip
        statuses, before = {}, len(house.model.requests)
        for model in ("small", url, host, f"small@{host}", f"openai/{url}", f"//{host}/small"):
            body = {"model": model, **ASKED_WITHOUT_ADDRESS[asked], **fields}
            statuses[model] = house.client.post(path, json=body, headers=headers).status_code
        with pytest.raises(TimeoutError):
            trap.accept()

    known = 404 if "audio" in path else 200
    assert statuses == dict.fromkeys(statuses, 404) | {"small": known}
    assert len(house.model.requests) - before == (known == 200)
