"""Every way in which a server can fail: what a caller gets, whole or streamed, and who is next."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, Self

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hearth.openai_api.scripts import Break
from hearth.openai_api.testing import ScriptedModel
from tests.conftest import served
from tests.integration.gateway.conftest import (
    CHAT,
    Json,
    Lab,
    chat,
    instances_of,
    send_raw,
    wait_until,
)
from tests.ports import free_port

EXTENDED_INPUTS = [
    "moe_gateway/requests/**", "moe_gateway/responses/**", "moe_gateway/api/**",
    "moe_gateway/http/**", "hearth/openai_api/**",
]  # fmt: skip

UNDER_WAY = 16
"""More than the failovers that may come at once for other reasons."""
SILENT = """
import sys, uvicorn
from hearth.openai_api.testing import ScriptedModel
model = ScriptedModel()
model.when("wait").hang()
uvicorn.run(model.app, port=int(sys.argv[1]), log_level="warning")
"""
DOCUMENT = b'{"object": "chat.completion", "choices": []}'
PAGE = {"content-type": "text/html; charset=utf-8"}


class Faulty:
    """One server that fails as the request says, alone and beside one that does not."""

    def __init__(self, lab: Lab) -> None:
        self.model, self.well = ScriptedModel(), ScriptedModel()
        for place in ("early", "late"):
            after = 2 if place == "late" else 0
            hows: tuple[Break, ...] = (
                "reset", "close", "error", "malformed", "hang", "half-closed", "huge-line",
                "endless",
            )  # fmt: skip
            for how in hows:
                self.model.when(f"{how} {place}").lose("one two three", after=after, how=how)
        self.model.when("slow first").say("one two", wait=0.5)
        self.model.when("slow middle").say("one two three", pause=0.3)
        self.model.when("5xx").refuse(500, "It broke.")
        self.model.when("busy").refuse(503, "Loading.")
        self.model.when("page").answer(b"<html>Welcome to my router</html>", headers=PAGE)
        self.model.when("half json").answer(b'{"choices": [{"mess')
        self.model.when("no object").answer(b"[]")
        self.model.when("no stream").answer(DOCUMENT)
        one = lab.expert(self.model, slots=9, fallback=["spare"])
        spare = lab.expert(self.well, "spare", slots=9)
        never: Json = {"circuit_failures": 1000}
        # Long enough for the first words of an answer on a busy machine.
        silence: Json = {"first_byte_timeout": 2, "idle_timeout": 1}
        self._patient = lab.gateway(one, **never)
        self._quick = lab.gateway(one, **never, **silence)
        self._bounded = lab.gateway(one, **never, deadline_seconds=2.5)
        self.beside = {stream: lab.gateway(one, spare, **never) for stream in (False, True)}

    def alone(self, code: str | None) -> httpx2.Client:
        """The gateway with the faulty server alone, which waits for this error and no other."""
        if code == "deadline_exceeded":
            return self._bounded
        return self._quick if code and code.endswith("timeout") else self._patient


class Machine:
    """A server that takes each request and answers only its checks, until its machine vanishes."""

    def __init__(self) -> None:
        self._door, self._stack = socket.create_server(("127.0.0.1", 0)), ExitStack()
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        self.working, self._gone = False, threading.Event()
        self._serving = threading.Thread(target=self._serve)
        self._door.settimeout(0.05)

    def __enter__(self) -> Self:
        self._stack.enter_context(self._door)
        self._serving.start()
        self._stack.callback(self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def vanish(self) -> None:
        """Take no connection any more, nor have the system take one: its queue is full."""
        self._stop()
        self._door.listen(0)
        for _ in range(4):
            one = self._stack.enter_context(socket.socket())
            one.settimeout(0)
            one.connect_ex(self._door.getsockname())

    def _stop(self) -> None:
        self._gone.set()
        self._serving.join()

    def _serve(self) -> None:
        while not self._gone.is_set():
            with suppress(TimeoutError):
                self._answer(self._stack.enter_context(self._door.accept()[0]))

    def _answer(self, connection: socket.socket) -> None:
        asked = connection.recv(65536)
        if asked.startswith(b"POST"):
            self.working = True
            return
        body = b'{"data": [{"id": "small"}]}' if b"/v1/models" in asked else b"{}"
        head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)
        connection.close()


def mixed(read: threading.Event) -> Starlette:
    """A server that says a word and, when that is `read`, calls two tools in turns and ends."""

    def event(**delta: Any) -> str:
        return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"

    def call(index: int, **more: str) -> str:
        function = {"name": "look", "arguments": ""} if more else {"arguments": "{}"}
        return event(tool_calls=[{"index": index, "function": function, **more}])

    def answer() -> Iterator[str]:
        yield event(content="One ")
        read.wait(60)
        yield call(0, id="a") + call(1, id="b") + call(0) + "data: [DONE]\n\n"

    async def chats(request: Request) -> Response:
        return StreamingResponse(answer(), media_type="text/event-stream")

    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": "small"}]})

    return Starlette(routes=[Route(CHAT, chats, methods=["POST"]), Route("/{path:path}", models)])


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    with ExitStack() as stack:
        yield Faulty(Lab(stack, tmp_path_factory.mktemp("gateway")))


def ask(gateway: httpx2.Client, text: str, *, stream: bool) -> tuple[int, Any]:
    """The status, and the error's code: of the answer, or of the stream's last event. None: it was
    a whole answer."""
    with gateway.stream("POST", CHAT, json=chat(text, stream=stream)) as answer:
        if answer.headers["content-type"].startswith("text/event-stream"):
            last = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")][-1]
            error = None if last == "[DONE]" else json.loads(last)["error"]
            return answer.status_code, error and (error["code"] or error["type"])
        answer.read()
    error = answer.json().get("error")
    return answer.status_code, error and (error["code"] or error["type"])


EARLY = [
    # fault, whole, streamed: status and code, when there is nobody else
    ("reset early", (502, "upstream_lost"), (502, "upstream_lost")),
    ("close early", (502, "upstream_lost"), (502, "upstream_lost")),
    ("malformed early", (502, "upstream_lost"), (200, "upstream_lost")),
    ("hang early", (504, "upstream_first_byte_timeout"), (504, "upstream_first_byte_timeout")),
    ("half-closed early", (502, "upstream_lost"), (502, "upstream_lost")),
    ("page", (502, "upstream_lost"), (502, "upstream_lost")),
    ("half json", (502, "upstream_lost"), (502, "upstream_lost")),
    ("no object", (502, "upstream_lost"), (502, "upstream_lost")),
    ("no stream", (200, None), (502, "upstream_lost")),
    ("5xx", (500, "server_error"), (500, "server_error")),
    ("busy", (503, "server_error"), (503, "server_error")),
    ("error early", (500, "server_error"), (200, "server_error")),
]
LATE = [
    ("reset late", (502, "upstream_lost"), (200, "upstream_lost")),
    ("close late", (502, "upstream_lost"), (200, "upstream_lost")),
    ("malformed late", (502, "upstream_lost"), (200, "upstream_lost")),
    ("hang late", (504, "upstream_first_byte_timeout"), (200, "upstream_idle_timeout")),
    ("half-closed late", (502, "upstream_lost"), (200, "upstream_lost")),
    ("huge-line late", (504, "deadline_exceeded"), (200, "upstream_lost")),
    ("endless late", (504, "deadline_exceeded"), (200, "deadline_exceeded")),
    ("slow first", (200, None), (200, None)),
    ("slow middle", (200, None), (200, None)),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fault", "whole", "streamed"), [*EARLY, *LATE])
def test_fault_has_an_end_and_a_name(
    faulty: Faulty, fault: str, whole: Any, streamed: Any, *, stream: bool
) -> None:
    """No fault hangs a caller, none looks like a whole answer, and the slot is free again."""
    expected = streamed if stream else whole
    gateway = faulty.alone(expected[1])

    assert ask(gateway, fault, stream=stream) == expected
    wait_until(lambda: instances_of(gateway)[0]["in_flight"] == 0, 60)


FAMILIES: dict[str, Json] = {
    "/v1/completions": {"prompt": "{}"},
    "/v1/responses": {"input": "{}"},
    "/v1/messages": {"messages": [{"role": "user", "content": "{}"}], "max_tokens": 99},
    "/api/chat": {"messages": [{"role": "user", "content": "{}"}]},
}
ENDS = {
    "/v1/completions": ("[DONE]", '"error":'),
    "/v1/responses": ('"type":"response.completed"', '"type":"error"'),
    "/v1/messages": ('"type":"message_stop"', '"type":"error"'),
    "/api/chat": ('"done":true', '"error":'),
}
"""What the last event of a whole stream holds, and that of a broken one."""


@pytest.mark.extended
@pytest.mark.parametrize("path", FAMILIES)
@pytest.mark.parametrize(("fault", "whole", "streamed"), [*EARLY, *LATE])
def test_fault_has_an_end_in_every_family(
    faulty: Faulty, path: str, fault: str, whole: Any, streamed: Any
) -> None:
    """As a stream, which is where the APIs differ most: the last event is the error, in the words
    of the API, and a status that was not sent is the same as for a chat."""
    gateway = faulty.alone(streamed[1])
    text = json.dumps({"model": "small", "stream": True, **FAMILIES[path]}).replace("{}", fault)

    answer = gateway.post(path, content=text, headers={"content-type": "application/json"})

    good, bad = ENDS[path]
    last = [line for line in answer.text.split("\n") if line.strip()][-1]
    if answer.status_code == 200:
        assert (good in last, bad in last) == (streamed[1] is None, streamed[1] is not None)
    else:
        assert "error" in answer.json()
        assert answer.status_code == (streamed[0] if streamed[0] != 200 else 502)
    wait_until(lambda: instances_of(gateway)[0]["in_flight"] == 0, 60)


@pytest.mark.extended
@pytest.mark.parametrize("path", FAMILIES)
@pytest.mark.parametrize("fault", ["reset early", "hang early", "half json", "5xx", "busy"])
def test_fault_of_a_whole_answer_has_its_status_in_every_family(
    faulty: Faulty, path: str, fault: str
) -> None:
    """And an error in the form of that API."""
    whole = next(one[1] for one in EARLY if one[0] == fault)
    text = json.dumps({"model": "small", "stream": False, **FAMILIES[path]}).replace("{}", fault)

    answer = faulty.alone(whole[1]).post(
        path, content=text, headers={"content-type": "application/json"}
    )

    assert answer.status_code == whole[0]
    error = answer.json()["error"]
    assert error if path == "/api/chat" else error["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fault", ["reset early", "close early", "half-closed early", "page", "busy", "half json"]
)
def test_next_one_answers_what_has_not_begun(faulty: Faulty, fault: str, *, stream: bool) -> None:
    """The caller gets a whole answer, and reads who was passed over."""
    gateway = faulty.beside[stream]
    with gateway.stream("POST", CHAT, json=chat(fault, stream=stream)) as answer:
        text = answer.read().decode()

    assert answer.status_code == 200
    assert answer.headers["x-hearth-expert"] == "spare"
    assert "; its fallback spare; not small@" in answer.headers["x-hearth-route"]
    assert fault.split()[0] in text
    assert "error" not in text


def test_refused_connection_is_passed_over(lab: Lab) -> None:
    """Alone it is 503 with Retry-After: the machine may be back in a moment."""
    gone = lab.at("http://127.0.0.1:9", expert="small")
    model = ScriptedModel()
    gateway = lab.gateway(gone, lab.expert(model), ready=False)
    wait_until(lambda: any(one["healthy"] for one in instances_of(gateway)))

    assert ask(gateway, "x", stream=False) == (200, None)
    assert ask(gateway, "x", stream=True) == (200, None)


def test_server_that_is_killed_under_load_costs_no_request(lab: Lab) -> None:
    """All that it worked on, and had not begun to answer, is answered by the other one; and it is
    out before the last of that is said."""
    model, held, port = ScriptedModel(), threading.Event(), free_port()
    model.when("wait").say("one two", held=held)
    with ExitStack() as running:
        running.callback(held.set)
        dying = subprocess.Popen([sys.executable, "-c", SILENT, str(port)])
        running.callback(dying.wait)
        running.callback(dying.kill)
        gateway = lab.gateway(
            lab.at(f"http://127.0.0.1:{port}", expert="small", slots=UNDER_WAY),
            lab.expert(model, slots=UNDER_WAY),
            check_interval=1,
        )
        threads = running.enter_context(ThreadPoolExecutor(2 * UNDER_WAY))
        asked = [
            threads.submit(ask, gateway, "wait", stream=n % 2 == 0) for n in range(2 * UNDER_WAY)
        ]
        wait_until(lambda: [one["in_flight"] for one in instances_of(gateway)] == [UNDER_WAY] * 2)
        dying.kill()
        wait_until(lambda: instances_of(gateway)[0]["in_flight"] == 0)
        out = instances_of(gateway)[0]
        held.set()
        answers = [one.result() for one in asked]

    assert answers == [(200, None)] * 2 * UNDER_WAY
    assert out["circuit"] != "closed" or not out["healthy"]


def test_machine_that_vanishes_is_missed_while_it_works_for_us(lab: Lab) -> None:
    """Its plug is pulled: nothing refuses, nothing answers. A server that is merely busy still
    takes connections, for its system does that; so its checks tell the two apart."""
    with Machine() as machine:
        gateway = lab.gateway(lab.at(machine.url, expert="small"), check_timeout=0.5)
        with send_raw(gateway, chat("go")):
            wait_until(lambda: machine.working)
            machine.vanish()
            wait_until(lambda: not instances_of(gateway)[0]["healthy"])
            (found,) = instances_of(gateway)

    assert found["in_flight"] == 1
    assert found["reason"].endswith("no connection within 0.5 s.")


def test_response_with_words_out_is_not_begun_again_elsewhere(lab: Lab) -> None:
    """What breaks it is in one packet with its end: calls that mix, which no event can tell."""
    read, second = threading.Event(), ScriptedModel()
    second.when("go").say("another answer")
    gateway = lab.gateway(
        lab.at(lab.serve(mixed(read)), expert="small"), lab.expert(second, "spare", cost=9)
    )
    asked = {"model": "auto", "input": "go", "stream": True}
    with gateway.stream("POST", "/v1/responses", json=asked) as answer:
        lines = answer.iter_lines()
        seen = list(iter(lambda: next(lines), "event: response.output_text.delta"))
        read.set()
        seen += lines

    text = "\n".join(seen)
    assert "event: response.failed" in text
    assert "another" not in text
    assert text.count("event: response.created") == 1
    assert second.requests == []


def test_stream_that_breaks_off_is_counted_as_a_failure_and_logged(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its status went out before: a house whose every answer breaks would look well."""
    model = ScriptedModel()
    model.when("go").lose("one two three", after=2)
    gateway = lab.gateway(lab.expert(model))

    answer = gateway.post(CHAT, json=chat("go", stream=True))

    assert '"code":"upstream_lost"' in answer.text
    wait_until(lambda: 'model="small",status="5xx"} 1.0' in gateway.get("/metrics").text)
    assert 'model="small",status="2xx"} 1.0' not in gateway.get("/metrics").text
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "answer_broken" in one]
    assert answer.headers["x-request-id"] in line


def test_server_that_is_gone_is_out_with_the_first_request(lab: Lab) -> None:
    """Each of those that come after its death is answered by the other one."""
    with ExitStack() as dying:
        first = dying.enter_context(served(ScriptedModel().app))
        gateway = lab.gateway(
            lab.at(first, expert="small", slots=4), lab.expert(ScriptedModel(), slots=4)
        )
        ask(gateway, "x", stream=False)
        dying.close()
        answers = [ask(gateway, f"x{n}", stream=n % 2 == 0) for n in range(50)]
        wait_until(lambda: [one["healthy"] for one in instances_of(gateway)].count(True) == 1)

    assert answers == [(200, None)] * 50
