"""`python -m moe_gateway`: as a process, with its environment, its log and its signals."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import (
    CHAT,
    KEY,
    SERVICE_KEY,
    Json,
    Lab,
    caller,
    chat,
    events,
    gauge,
    raw,
    send_raw,
    text_of,
    wait_until,
)

MARKER = "PROMPT-THAT-MUST-STAY-PRIVATE"


class Process:
    """A running gateway; `log` is all that it wrote."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._file = folder / "log"
        with self._file.open("wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "moe_gateway"], env=environment, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        return self._file.read_text()

    def stop(self) -> int:
        self.child.terminate()
        return self.child.wait(60)


@pytest.fixture
def start(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., tuple[Process, httpx2.Client]]]:
    """`start(*instances)` runs a gateway on a free port."""
    running: list[Process] = []
    clients: list[httpx2.Client] = []

    def start(*instances: Json, **settings: str) -> tuple[Process, httpx2.Client]:
        environment = {
            **{n: v for n, v in os.environ.items() if not n.startswith("MOE_GATEWAY_")},
            "MOE_GATEWAY_PORT": "0",
            "MOE_GATEWAY_KEY_FILES": json.dumps(
                [str(tmp_path / "key"), str(tmp_path / "service_key")]
            ),
            "MOE_GATEWAY_INSTANCES": json.dumps(instances, default=str),
            "MOE_GATEWAY_CHECK_INTERVAL": "0.05",
            **settings,
        }
        process = Process(environment, tmp_path)
        running.append(process)
        wait_until(lambda: "running on http://" in process.log or process.child.poll() is not None)
        url = process.log.partition("running on ")[2].split()[0]
        client = caller(url)
        clients.append(client)
        wait_until(lambda: client.get("/health").status_code == 200)
        return process, client

    yield start
    for client in clients:
        client.close()
    for process in running:
        process.child.kill()
        process.child.wait()


@contextmanager
def in_background(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(60)


def test_stop_lets_answers_finish(
    lab: Lab, start: Callable[..., tuple[Process, httpx2.Client]]
) -> None:
    """SIGTERM in mid-stream: the caller gets every word; then the process ends with code 0."""
    model = ScriptedModel()
    model.when("go").say("word " * 20, pause=0.05)
    process, client = start(lab.expert(model))
    codes: list[int] = []

    with client.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        model.wait_until(lambda m: m.words_sent >= 2)
        with in_background(lambda: codes.append(process.stop())):
            found = events(answer)

    assert text_of(found) == "word " * 20
    assert found[-1] == "[DONE]"
    assert codes == [0]


def test_stop_does_not_wait_for_ever(
    lab: Lab, start: Callable[..., tuple[Process, httpx2.Client]]
) -> None:
    """What is not done by then is told so: the stream with its last event, the other with 503."""
    model = ScriptedModel()
    model.when("go").say("word " * 1000, pause=0.05)
    process, client = start(lab.expert(model, slots=2), MOE_GATEWAY_DRAIN_SECONDS="1")
    whole = send_raw(client, chat("go"))

    with client.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        model.wait_until(lambda m: m.running == 2 and m.words_sent >= 2)
        queued = send_raw(client, chat("go"))
        wait_until(lambda: gauge(client, "moe_gateway_waiting") == 1)
        process.child.send_signal(signal.SIGTERM)
        found = events(answer)
    refused = [read_all(whole), read_all(queued)]

    assert found[-1]["error"]["code"] == "stopping"
    assert [one.split(b"\r\n")[0] for one in refused] == [b"HTTP/1.1 503 Service Unavailable"] * 2
    assert all(b'"code":"stopping"' in one for one in refused)
    assert process.child.wait(60) == 0
    model.wait_until(lambda m: m.aborted == 2)
    assert len(model.requests) == 2


def test_stop_answers_what_came_before_it_and_nothing_else(
    lab: Lab, start: Callable[..., tuple[Process, httpx2.Client]]
) -> None:
    """Who waits in the queue gets a slot in time; who comes later, on a new connection, on an idle
    one or behind a request under way, is left without a byte or told to come again. That begins in
    the moment of the signal, not when the connections are closed."""
    model, held = ScriptedModel(), threading.Event()
    model.when("go").say("done", held=held)
    process, client = start(lab.expert(model, slots=1), MOE_GATEWAY_DRAIN_SECONDS="60")
    idle, *at_once = [send_raw(client, chat("before")) for _ in range(5)]
    for connection in (idle, *at_once):
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    busy = send_raw(client, chat("go 1"))
    model.wait_until(lambda m: m.running == 1)
    queued = send_raw(client, chat("go 2"))
    wait_until(lambda: gauge(client, "moe_gateway_waiting") == 1)

    process.child.send_signal(signal.SIGTERM)
    for connection in at_once:
        connection.sendall(raw(client, chat("at once")))
    wait_until(lambda: "Shutting down" in process.log)
    wait_until(lambda: nobody_listens(client))
    for connection, text in ((idle, "late 1"), (busy, "late 2")):
        connection.sendall(raw(client, chat(text)))
    held.set()

    for connection in (busy, queued):
        answer = read_all(connection)
        assert answer.count(b"HTTP/1.1 200 OK") == 1
        assert b"late" not in answer
    assert read_all(idle) == b""
    for answer in map(read_all, at_once):
        assert answer == b"" or (answer[9:12] == b"503" and b'"code":"stopping"' in answer)
    assert process.child.wait(60) == 0
    asked = [one.body["messages"][0]["content"] for one in model.requests]
    assert asked == [*["before"] * 5, "go 1", "go 2"]


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other side closes the connection."""
    answer = b""
    with connection, suppress(ConnectionError):  # It was closed before it was read.
        while data := connection.recv(65536):
            answer += data
    return answer


def nobody_listens(client: httpx2.Client) -> bool:
    """Whether a new connection is refused; a process says that it stops just before it is."""
    try:
        httpx2.get(client.base_url, timeout=5, trust_env=False)
    except httpx2.TransportError:
        return True
    return False


def test_log_and_metrics_hold_no_key_and_no_prompt(
    lab: Lab, start: Callable[..., tuple[Process, httpx2.Client]]
) -> None:
    """People read logs, and send them around; every path is driven, those that fail most of all."""
    model, secretive = ScriptedModel(), ScriptedModel(key="sk-hearth-of-that-server")
    model.when("lost").lose(f"{MARKER} b c", after=1, how="reset", pause=0.02)
    model.when("early").lose(how="reset")
    model.when("silent").hang("a b", after=1)
    model.when("refused").refuse(500, "The model broke.")
    model.when("malformed").lose("a b", after=1, how="malformed")
    model.when("patient").say("never", wait=60)
    failing = ScriptedModel()
    failing.when(MARKER).lose(how="reset")
    process, client = start(
        lab.expert(model, stops_unary=False),
        lab.expert(secretive, "locked"),
        lab.expert(failing, "pair"),
        lab.expert(ScriptedModel(), "pair"),
        MOE_GATEWAY_IDLE_TIMEOUT="0.3",
        MOE_GATEWAY_MAX_BODY_BYTES="4096",
    )
    for text in ("fine", "lost", "early", "silent", "refused", "malformed"):
        for stream in (False, True):
            client.post(CHAT, json=chat(f"{MARKER} {text}", stream=stream))
    client.post(CHAT, json=chat(MARKER, "locked"))
    client.post(CHAT, json=chat(MARKER, "pair"))
    client.post(CHAT, json=chat(MARKER, f"{MARKER}-model"))
    client.post(CHAT, json=chat(MARKER * 500))
    client.post(CHAT, content=f'{{"model": "small", "messages": [{MARKER}'.encode())
    client.post(CHAT, json={"model": [MARKER]})
    client.get(f"/{MARKER}")
    client.post(CHAT, json=chat(MARKER), headers={"authorization": "Bearer sk-hearth-guessed"})
    leaving = send_raw(client, chat(f"{MARKER} patient"))
    model.wait_until(lambda m: m.running == 1)
    leaving.close()
    wait_until(lambda: "caller_gone" in process.log)
    metrics = client.get("/metrics").text
    assert process.stop() == 0

    for event in ("request_refused", "failed_over", "caller_gone", "instance_refuses_our_key"):
        assert event in process.log
    for secret in (MARKER, KEY, SERVICE_KEY, "sk-hearth"):
        assert secret not in process.log
        assert secret not in metrics


def test_wrong_settings_end_the_start_with_one_sentence(tmp_path: Path) -> None:
    """A misspelt name is found at once, not after an hour."""
    (tmp_path / "key").write_text("k")
    environment = {
        "MOE_GATEWAY_KEY_FILES": json.dumps([str(tmp_path / "key")]),
        "MOE_GATEWAY_IDLE_TIMOUT": "3",
    }
    found = subprocess.run(
        [sys.executable, "-m", "moe_gateway"], env=environment, capture_output=True, text=True
    )

    assert found.returncode == 1
    assert found.stderr.strip() == (
        "MOE_GATEWAY_IDLE_TIMOUT is not a setting. Did you mean MOE_GATEWAY_IDLE_TIMEOUT?"
    )
