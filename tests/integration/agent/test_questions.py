"""Questions of a run, answered over HTTP and in the shell."""

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hearth.service.state import StateDir
from tests.integration.agent.conftest import House, follow
from tests.integration.agent.test_cli import Hearth, announce, command, hearth

__all__ = ["hearth"]

MORE = """
id: more
steps:
  - id: look
    use: time.now
    until: "{{ loop.index == 2 }}"
    max: 2
    on_max: ask
outputs: {count: "{{ look.count }}"}
"""


def ask(client: httpx2.Client, **more: Any) -> str:
    """Start the loop and wait for its question."""
    run = str(client.post("/api/runs", json={"document": MORE, **more}).json()["run"])
    with client.stream("GET", f"/api/runs/{run}/events") as answer:
        assert follow(answer, until="node.waiting")[-1].event == "node.waiting"
    return run


def ended(client: httpx2.Client, run: str) -> dict[str, Any]:
    with client.stream("GET", f"/api/runs/{run}/events") as answer:
        follow(answer)
    found: dict[str, Any] = client.get(f"/api/runs/{run}").json()
    return found


@pytest.mark.proves("000-19")
def test_answer_over_http_lets_the_run_go_on(house: House) -> None:
    """The list tells which runs wait; a wrong answer is refused with what would fit."""
    with house.client() as client:
        run = ask(client)
        waiting = client.get("/api/runs", params={"status": "waiting"}).json()["runs"]
        refused = client.post(f"/api/runs/{run}/answer", json={"path": "look[2]/max", "value": "x"})
        missed = client.post(f"/api/runs/{run}/answer", json={"path": "look", "value": 1})
        taken = client.post(f"/api/runs/{run}/answer", json={"path": "look[2]/max", "value": 5})
        view = ended(client, run)

    assert [one["id"] for one in waiting] == [run]
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "wrong_answer")
    assert (missed.status_code, missed.json()["error"]["code"]) == (409, "not_asked")
    assert taken.status_code == 200
    assert (view["status"], view["outputs"]) == ("done", {"count": 3})
    asked = next(step for step in view["steps"] if step["path"] == "look[2]/max")
    assert asked["facts"]["question"]["returns"] == "integer"
    assert asked["facts"]["by"] == "api"


def test_waiting_run_survives_a_restart_of_the_service(empty_house: House) -> None:
    """The question is still open after an update, and the answer counts."""
    with empty_house.running(), empty_house.client() as client:
        run = ask(client)
    with empty_house.running(), empty_house.client() as client:
        deadline = time.monotonic() + 60
        while client.get(f"/api/runs/{run}").json()["status"] != "waiting":
            assert time.monotonic() < deadline, "the run does not wait again"
            time.sleep(0.05)
        taken = client.post(f"/api/runs/{run}/answer", json={"path": "look[2]/max", "value": 0})
        assert taken.status_code == 200, taken.text

        assert ended(client, run)["outputs"] == {"count": 2}


def test_note_over_http_is_an_event_of_the_run(house: House) -> None:
    """Who looks at the run later sees what was said to it, by whom and when."""
    with house.client() as client:
        run = ask(client)
        noted = client.post(f"/api/runs/{run}/notes", json={"text": "Hurry.", "by": "anna"})
        client.post(f"/api/runs/{run}/cancel")
        late = client.post(f"/api/runs/{run}/notes", json={"text": "Too late."})
        with client.stream("GET", f"/api/runs/{run}/events") as answer:
            events = [event for event in follow(answer) if event.event == "run.note"]

    assert noted.status_code == 204
    assert late.status_code == 404
    assert len(events) == 1
    assert '"Hurry."' in events[0].data


def test_run_in_a_script_takes_its_answers_beforehand(hearth: Hearth, tmp_path: Path) -> None:
    """Nobody sits at a script: with `--answer` it runs through, without it says what it needs."""
    file = tmp_path / "more.yaml"
    file.write_text(MORE)

    answered = hearth("run", str(file), "--answer", "look/max=1")
    alone = hearth("run", str(file))
    wrong = hearth("run", str(file), "--answer", "look")

    assert (answered.exit_code, answered.stdout) == (0, '{\n  "count": 3\n}\n')
    assert alone.exit_code == 1
    assert "Nobody can answer" in alone.stderr
    assert "Use --answer look/max=" in alone.stderr
    assert wrong.exit_code == 2


def test_answer_and_note_in_the_shell(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person can do on the page they can do in the shell, with the same effect."""
    announce(house)
    hearth = command(house, monkeypatch)
    with house.client() as client:
        run = ask(client)

        refused = hearth("runs", "answer", run, "look[2]/max", "many")
        noted = hearth("runs", "note", run, "Hurry.")
        taken = hearth("runs", "answer", run, "look[2]/max", "1")
        again = hearth("runs", "answer", run, "look[2]/max", "1")
        view = ended(client, run)

    assert (refused.exit_code, noted.exit_code, taken.exit_code) == (2, 0, 0)
    assert taken.stdout == f"The question of look[2]/max in run {run} is answered.\n"
    assert again.exit_code == 1
    assert view["outputs"] == {"count": 3}


def test_question_of_a_resting_run_is_answered_before_it_goes_on(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the service stopped the answer waits in the ledger for the run."""
    with empty_house.running(), empty_house.client() as client:
        run = ask(client)
    hearth = command(empty_house, monkeypatch)

    taken = hearth("runs", "answer", run, "look[2]/max", "4")
    twice = hearth("runs", "answer", run, "look[2]/max", "4")

    assert (taken.exit_code, twice.exit_code) == (0, 1)
    with empty_house.running(), empty_house.client() as client:
        assert ended(client, run)["outputs"] == {"count": 3}


@pytest.mark.parametrize("place", ["instance", "ledger"])
def test_waiting_run_is_cancelled_in_the_shell(
    place: str, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody wants any more is ended where one is, also while the service is stopped."""
    hearth = command(empty_house, monkeypatch)
    with empty_house.running(), empty_house.client() as client:
        run = ask(client)
        if place == "instance":
            announce(empty_house)
            cancelled = hearth("runs", "cancel", run)
    if place == "ledger":
        cancelled = hearth("runs", "cancel", run)
    StateDir(empty_house.state).instance_file.unlink(missing_ok=True)
    again, late = hearth("runs", "cancel", run), hearth("runs", "answer", run, "look[2]/max", "1")

    assert (cancelled.exit_code, cancelled.stdout) == (0, f"Run {run} is cancelled.\n")
    assert (again.exit_code, late.exit_code) == (1, 1)
    assert "had ended before: cancelled" in again.stderr
    with empty_house.running(), empty_house.client() as client:
        view = client.get(f"/api/runs/{run}").json()
    steps = {step["path"]: step["status"] for step in view["steps"]}
    assert (view["status"], steps["look[2]/max"]) == ("cancelled", "cancelled")


@pytest.mark.parametrize("stream", [False, True])
def test_question_ends_the_answer_of_a_chat_and_the_run_waits(
    empty_house: House, *, stream: bool
) -> None:
    """A chat client cannot wait for days: it is told where to answer, and the run stays."""
    (empty_house.state / "workflows").mkdir()
    (empty_house.state / "workflows" / "careful.yaml").write_text("""
id: careful
inputs: {messages: messages}
steps: [{id: sure, use: human.ask, with: {question: "Really?", choices: ["yes", "no"]}}]
outputs: {text: "{{ sure.answer }}"}
""")
    with empty_house.running(), empty_house.client() as client:
        answer = empty_house.ask("do it", model="workflow/careful", stream=stream)
        run = answer.headers["x-hearth-run"]
        assert client.get(f"/api/runs/{run}").json()["status"] == "waiting"
        client.post(f"/api/runs/{run}/answer", json={"path": "sure", "value": "yes"})
        view = ended(client, run)

    assert "Really? (yes, no)" in answer.text
    assert f"hearth runs answer {run} sure" in answer.text
    assert view["outputs"] == {"text": "yes"}
