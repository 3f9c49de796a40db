"""The agent service as a process: killed, stopped, started again."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.openai_api.sse import SseEvent
from tests.integration.agent.conftest import House, follow
from tests.ports import free_port

SECONDS_TO_START = 120
WAITED = "ledger_holder_waited_for"
"""What the log says of a start that cannot look at the process that holds the ledger."""

EFFECTS = ("PIPECATAPP_", "HEARTH_")


@contextmanager
def process(house: House, log: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m pipecatapp` on the house's state directory; killed at the end if it still runs."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(EFFECTS)}
    house.address = f"http://127.0.0.1:{port}"
    environment = {**kept, **house.environment(), "PIPECATAPP_PORT": str(port), **more}
    with log.open("ab") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", "pipecatapp"], env=environment, stdout=output, stderr=output
        )
    try:
        wait_until_ready(house, running, log)
        yield running
    finally:
        running.kill()
        running.wait()


def wait_until_ready(house: House, running: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while running.poll() is None and time.monotonic() < deadline:
        try:
            if httpx2.get(f"{house.address}/health").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.05)
    raise AssertionError(f"The service did not start:\n{log.read_text(encoding='utf-8')}")


def start(client: httpx2.Client, text: str) -> str:
    body = {"workflow": "agent-turn", "inputs": {"text": text}}
    return str(client.post("/api/runs", json=body).json()["run"])


def ended(client: httpx2.Client, run: str) -> dict[str, Any]:
    """Follow the run to its end, then look at it; without `end` one comes back."""
    events: list[SseEvent] = []
    while not events or events[-1].event != "end":
        with client.stream("GET", f"/api/runs/{run}/events") as answer:
            events = follow(answer)
    view: dict[str, Any] = client.get(f"/api/runs/{run}").json()
    return view


def test_killed_agent_goes_on_after_its_restart_and_saves_no_note_twice(
    empty_house: House, tmp_path: Path
) -> None:
    """The power fails while the model writes its answer; the note it saved before is kept once."""
    log = tmp_path / "log"
    model = empty_house.model
    model.when("remember").call_tool("note_save", {"text": "The cat is fed at six."})
    model.when("fed at six").hang("I have", after=1).say("I have noted it.")

    with process(empty_house, log) as first, empty_house.client() as client:
        run = start(client, "please remember the cat")
        model.wait_until(lambda model: len(model.requests) == 2 and model.requests[1].words == 1)
        first.send_signal(signal.SIGKILL)
        first.wait()
    with process(empty_house, log), empty_house.client() as client:
        view = ended(client, run)
        found = client.post(
            "/api/runs",
            json={
                "document": "id: look\nsteps: [{id: n, use: note.find}]\n"
                "outputs: {notes: '{{ n.notes }}'}"
            },
        ).json()["run"]
        notes = ended(client, found)["outputs"]["notes"]

    assert (view["status"], view["outputs"]["text"]) == ("done", "I have noted it.")
    assert [note["text"] for note in notes] == ["The cat is fed at six."]
    attempts = {step["path"]: step["attempt"] for step in view["steps"]}
    assert attempts["reply/turn[1]/llm"] == 1
    assert attempts["reply/turn[1]/call[0]"] == 1
    assert attempts["reply/turn[2]/llm"] == 2
    assert len(model.requests) == 3
    assert f"run={run}" in log.read_text(encoding="utf-8")


def test_agent_whose_container_was_killed_is_back_by_one_start(
    empty_house: House, tmp_path: Path
) -> None:
    """The next container cannot look at a process of the last one. Were it to end because of that,
    Nomad would start it a few times, and then let the house wait for minutes."""
    with process(empty_house, tmp_path / "first"):
        pass
    claimed(empty_house)

    with (
        Steady(lambda: forgotten(empty_house, tmp_path / "second")),
        process(empty_house, tmp_path / "second"),
    ):
        pass

    assert WAITED in (tmp_path / "second").read_text(encoding="utf-8")


def test_agent_beside_one_that_lives_elsewhere_does_not_start(
    empty_house: House, tmp_path: Path
) -> None:
    """Two must never go on with the same run, however long the second has waited."""
    with process(empty_house, tmp_path / "first"):
        pass
    claimed(empty_house)

    with (
        Steady(lambda: claimed(empty_house)),
        pytest.raises(AssertionError, match="in use by process 1 on far"),
        process(empty_house, tmp_path / "second"),
    ):
        pass

    assert WAITED in (tmp_path / "second").read_text(encoding="utf-8")


class Steady:
    """Calls a function every second, from another thread, while the block runs."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._over = work, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(1):
            self._work()


def forgotten(house: House, log: Path) -> None:
    """Once a start waits for the claim, let the claim become as old as that of a dead process;
    until then it lives, however long the start takes."""
    waits = log.exists() and WAITED in log.read_text(encoding="utf-8")
    with closing(sqlite3.connect(house.state / "ledger.db")) as ledger, ledger:
        if waits:
            ledger.execute("UPDATE lease SET heartbeat = 0 WHERE owner = 'x'")
        else:  # Seldom: a heartbeat between two looks of the start is that of a living process.
            old = time.time() - 20
            ledger.execute("UPDATE lease SET heartbeat = ? WHERE heartbeat < ?", (old + 20, old))


def claimed(house: House, seconds_ago: float = 0.0) -> None:
    """The ledger is held by a process that nobody here can look at."""
    with closing(sqlite3.connect(house.state / "ledger.db")) as ledger, ledger:
        ledger.execute(
            "INSERT OR REPLACE INTO lease VALUES (1, 'x', 'elsewhere', 'far', 1, '1', '2026', ?)",
            (time.time() - seconds_ago,),
        )


def test_stop_ends_open_event_streams_and_leaves_the_run_to_be_resumed(
    empty_house: House, tmp_path: Path
) -> None:
    """An update of the service must neither hang on a page that looks at it nor lose work."""
    log = tmp_path / "log"
    empty_house.model.when("hello").hang("one", after=1).say("one two")

    with process(empty_house, log) as first, empty_house.client() as client:
        run = start(client, "hello")
        with client.stream("GET", f"/api/runs/{run}/events") as answer:
            lines = answer.iter_lines()
            assert "event: delta" in lines
            first.send_signal(signal.SIGTERM)
            rest = list(lines)
        assert first.wait(timeout=60) == 0
    with process(empty_house, log), empty_house.client() as client:
        view = ended(client, run)

    assert "event: end" not in rest
    assert (view["status"], view["outputs"]["text"]) == ("done", "one two")


def test_stop_lets_a_run_end_that_needs_less_than_the_drain_time(
    empty_house: House, tmp_path: Path
) -> None:
    """Most answers take seconds; they are finished, not thrown away."""
    empty_house.model.when("hello").say("one two three", pause=0.3)

    with process(empty_house, tmp_path / "log", PIPECATAPP_DRAIN_SECONDS="20") as service:
        with empty_house.client() as client:
            body = {"model": "agent", "messages": [{"role": "user", "content": "hello"}]}
            with client.stream(
                "POST", "/v1/chat/completions", json={**body, "stream": True}
            ) as answer:
                lines = answer.iter_lines()
                next(lines)
                service.send_signal(signal.SIGTERM)
                text = "".join(lines)
        assert service.wait(timeout=60) == 0

    assert text.endswith("data: [DONE]")
    assert len(empty_house.model.requests) == 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda house: (house.state / "key").unlink(), "cannot be read"),
        (lambda house: (house.state / "ledger.db").write_bytes(b"no database" * 99), "ledger"),
    ],
)
def test_start_that_cannot_work_ends_with_one_sentence(
    empty_house: House, tmp_path: Path, spoil: Any, said: str
) -> None:
    """Whoever starts it reads what is wrong, not a traceback."""
    spoil(empty_house)
    log = tmp_path / "log"

    with pytest.raises(AssertionError, match="did not start"), process(empty_house, log):
        pass

    text = log.read_text(encoding="utf-8")
    assert "start_refused" in text
    assert said in text
    assert "Traceback" not in text
