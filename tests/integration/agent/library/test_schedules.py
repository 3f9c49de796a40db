"""Workflows that start by themselves, in a real agent service."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
import typer
from typer.testing import CliRunner

from hearth.local.cli import commands
from hearth.service.state import RunningService
from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth, announce, command
from tests.integration.agent.test_restart import process

DEADLINE = 60
T = TypeVar("T")
TICK = """
id: tick
schedule: {every: 1h}
steps: [{id: now, use: time.now, with: {zone: UTC}}]
outputs: {at: "{{ now.iso }}"}
"""
DIGEST = """
id: digest
inputs: {fail: {type: boolean, default: false}}
steps:
  - {id: all, use: note.find, with: {limit: 50}}
  - {id: fresh, use: items.new, with: {items: "{{ all.notes }}", by: id}}
  - {id: broken, if: "{{ inputs.fail }}", use: time.now, with: {zone: Nowhere}}
  - {id: each, for: "{{ fresh.items }}", use: value, with: {value: "{{ item.text | upper }}"}}
outputs:
  told: "{{ each.all | map(attribute='value') | list }}"
  known: "{{ fresh.known }}"
"""
ASKING = """
id: asking
steps: [{id: sure, use: human.ask, with: {question: Sure?}}]
"""
KEEP = """
id: keep
inputs: {text: text}
steps: [{id: kept, use: note.save, with: {text: "{{ inputs.text }}"}}]
"""


def kept(house: House, *documents: str) -> None:
    folder = house.state / "workflows"
    folder.mkdir(exist_ok=True)
    for text in documents:
        name = text.split()[1]
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def eventually(look: Callable[[], T | None]) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + DEADLINE
    while (found := look()) is None:
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)
    return found


def schedule(client: httpx2.Client, id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/schedules/{id}").json()
    return found


def runs_of(client: httpx2.Client, workflow: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/api/runs?workflow={workflow}").json()["runs"]
    return found


def done(client: httpx2.Client, run: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        view: dict[str, Any] = client.get(f"/api/runs/{run}").json()
        return view if view["ended"] else None

    return eventually(look)


def overdue(house: House, id: str, hours: float) -> None:
    """As if the instance had been off for so long."""
    due = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    with closing(sqlite3.connect(house.state / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE schedule SET due = ? WHERE id = ?", (due, id))


def ledger_of(house: House, sql: str) -> list[Any]:
    with closing(sqlite3.connect(house.state / "ledger.db")) as ledger:
        return ledger.execute(sql).fetchall()


def test_times_that_passed_while_nothing_ran_are_made_up_for_by_one_run(
    empty_house: House,
) -> None:
    """A machine that slept over the weekend must not run Friday's job fifty times on Monday."""
    kept(empty_house, TICK)
    with empty_house.running(), empty_house.client() as client:
        assert schedule(client, "tick")["run"] is None
    overdue(empty_house, "tick", 5.5)

    with empty_house.running(), empty_house.client() as client:
        after = eventually(lambda: found if (found := schedule(client, "tick"))["run"] else None)
        done(client, after["run"])
        left = datetime.fromisoformat(after["due"]) - datetime.now(UTC)

        assert timedelta(0) < left <= timedelta(minutes=31)
        assert [run["id"] for run in runs_of(client, "tick")] == [after["run"]]
        assert client.get("/api/status").json()["schedules"][0]["run"] == after["run"]


def test_killed_service_has_noted_every_start_and_starts_none_twice(
    empty_house: House, tmp_path: Path
) -> None:
    """A start and its note are one transaction, so no power failure falls between them."""
    kept(empty_house, TICK.replace("1h", "1s"))
    log = tmp_path / "log"
    with process(empty_house, log) as running, empty_house.client() as client:
        eventually(lambda: len(runs_of(client, "tick")) > 1 or None)
        running.send_signal(signal.SIGKILL)
        running.wait()

    noted = ledger_of(empty_house, "SELECT run FROM schedule")
    newest = ledger_of(empty_house, "SELECT id FROM run ORDER BY id DESC LIMIT 1")
    starts = [moment for (moment,) in ledger_of(empty_house, "SELECT started FROM run ORDER BY id")]
    seconds = datetime.fromisoformat(starts[-1]) - datetime.fromisoformat(starts[0])
    assert noted == newest
    assert len(starts) <= seconds.total_seconds() + 2


def test_schedule_waits_for_its_last_run(empty_house: House) -> None:
    """A question that nobody answers over the weekend must not be asked a hundred times."""
    kept(empty_house, ASKING)
    new = {"workflow": "asking", "every": 3600}
    with empty_house.running(), empty_house.client() as client:
        client.put("/api/schedules/ask", json=new).raise_for_status()
        run = client.post("/api/schedules/ask/run").json()["run"]
        eventually(lambda: schedule(client, "ask")["status"] == "waiting" or None)
    overdue(empty_house, "ask", 3)

    with empty_house.running(), empty_house.client() as client:
        client.put("/api/schedules/other", json={**new, "every": 1}).raise_for_status()
        eventually(lambda: schedule(client, "other")["run"])
        assert schedule(client, "ask")["run"] == run
        client.post(f"/api/runs/{run}/answer", json={"path": "sure", "value": "yes"})
        eventually(lambda: schedule(client, "ask")["run"] != run or None)


@pytest.mark.proves("003-45")
def test_second_run_of_an_incremental_workflow_handles_only_what_is_new(
    empty_house: House,
) -> None:
    """News that was told last week is no news; what a failed run was given comes again."""
    kept(empty_house, DIGEST, KEEP)

    def weekly(client: httpx2.Client, *, fail: bool) -> None:
        new = {"workflow": "digest", "every": 1, "inputs": {"fail": fail}}
        client.put("/api/schedules/weekly", json=new).raise_for_status()

    def keep(client: httpx2.Client, text: str) -> None:
        body = {"workflow": "keep", "inputs": {"text": text}}
        done(client, client.post("/api/runs", json=body).json()["run"])

    with empty_house.running(), empty_house.client() as client:
        keep(client, "one")
        keep(client, "two")
        weekly(client, fail=False)
        eventually(lambda: told_by(client, "done") or None)
        weekly(client, fail=True)
        eventually(lambda: ended_as(client, "failed") or None)
        keep(client, "three")
        eventually(lambda: "three" in json.dumps(given_to(client, "failed")) or None)
        weekly(client, fail=False)
        eventually(lambda: "THREE" in told_by(client, "done") or None)
        count = len(ended_as(client, "done"))
        eventually(lambda: len(ended_as(client, "done")) > count or None)
        client.post("/api/schedules/weekly/pause").raise_for_status()
        told, callers = told_by(client, "done"), {run["caller"] for run in all_of(client)}

    assert (sorted(told[:2]), told[2:]) == (["ONE", "TWO"], ["THREE"])
    assert callers == {"schedule/weekly"}


def all_of(client: httpx2.Client) -> list[dict[str, Any]]:
    """The runs of the digest that have ended, oldest first."""
    found = client.get("/api/runs", params={"workflow": "digest", "limit": 500}).json()["runs"]
    views = [client.get(f"/api/runs/{run['id']}").json() for run in reversed(found)]
    return [view for view in views if view["ended"]]


def ended_as(client: httpx2.Client, status: str) -> list[dict[str, Any]]:
    return [view for view in all_of(client) if view["status"] == status]


def told_by(client: httpx2.Client, status: str) -> list[str]:
    return [word for view in ended_as(client, status) for word in view["outputs"]["told"]]


def given_to(client: httpx2.Client, status: str) -> list[Any]:
    """What was new to each of these runs."""
    steps = [step for view in ended_as(client, status) for step in view["steps"]]
    return [step["output"] for step in steps if step["path"] == "fresh"]


def test_schedule_of_a_document_follows_the_document(empty_house: House) -> None:
    """Who edits the file expects the times that it says now, and a pause to last."""
    kept(empty_house, TICK)
    with empty_house.running(), empty_house.client() as client:
        refused = client.delete("/api/schedules/tick")
        client.post("/api/schedules/tick/pause").raise_for_status()
    kept(empty_house, TICK.replace("every: 1h", 'cron: "0 8 * * *", zone: Europe/Berlin'))
    with empty_house.running(), empty_house.client() as client:
        edited = schedule(client, "tick")
        resumed = client.post("/api/schedules/tick/resume").json()
    (empty_house.state / "workflows" / "tick.yaml").unlink()
    with empty_house.running(), empty_house.client() as client:
        gone = client.get("/api/schedules/tick")

    assert refused.status_code == 409
    assert (edited["cron"], edited["zone"], edited["paused"]) == (
        "0 8 * * *", "Europe/Berlin", True,
    )  # fmt: skip
    assert edited["due"] is None
    assert resumed["due"].endswith(("06:00:00.000Z", "07:00:00.000Z"))
    assert gone.status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"workflow": "tick", "cron": "0 8 * *"}, 422, "five fields"),
        ({"workflow": "tock", "every": 60}, 404, "tick"),
        ({"workflow": "keep", "every": 60}, 422, "text"),
        ({"workflow": "tick", "cron": "0 8 * * *", "zone": "Mars"}, 422, "Mars"),
    ],
)
def test_schedule_that_cannot_start_is_refused(
    empty_house: House, body: dict[str, Any], status: int, told: str
) -> None:
    """A mistake is told when it is made, not at eight in the morning."""
    kept(empty_house, TICK, KEEP)
    with empty_house.running(), empty_house.client() as client:
        answer = client.put("/api/schedules/wrong", json=body)

    assert answer.status_code == status
    assert told in answer.json()["error"]["message"]


@pytest.mark.parametrize("place", ["instance", "ledger"])
def test_shell_manages_schedules(
    place: str, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hearth schedule` says the same with a running instance and without one."""
    kept(empty_house, KEEP)
    hearth = command(empty_house, monkeypatch)
    if place == "ledger":
        assert_shell_manages(hearth)
        return
    with empty_house.running():
        announce(empty_house)
        assert_shell_manages(hearth)


def assert_shell_manages(hearth: Hearth) -> None:
    made = hearth("schedule", "add", "hourly", "keep", "--every", "1h", "--input", "text=hello")
    wrong = hearth("schedule", "add", "hourly", "keep", "--cron", "x", "--input", "text=hello")
    hearth("schedule", "pause", "hourly")
    listed = json.loads(hearth("schedule", "--json").stdout)["schedules"]
    hearth("schedule", "resume", "hourly")
    run = hearth("schedule", "run", "hourly").stdout.strip()
    shown = hearth("schedule").stdout
    removed = hearth("schedule", "remove", "hourly")
    unknown = hearth("schedule", "remove", "hourly")

    assert (made.exit_code, wrong.exit_code, removed.exit_code, unknown.exit_code) == (0, 2, 0, 1)
    assert [(one["id"], one["paused"], one["inputs"]) for one in listed] == [
        ("hourly", True, {"text": "hello"})
    ]
    assert "hourly" in shown
    assert run in shown


def test_status_shows_what_starts_by_itself(empty_house: House) -> None:
    """Who looks why the machine is busy at eight in the morning finds it where the rest is."""
    kept(empty_house, KEEP)
    with empty_house.running(), empty_house.client() as client:
        for name in ("hourly", "paused"):
            body = {"workflow": "keep", "every": 3600, "inputs": {"text": "hello"}}
            assert client.put(f"/api/schedules/{name}", json=body).status_code == 200
        client.post("/api/schedules/paused/pause")
        due = client.get("/api/schedules/hourly").json()["due"]
        service = RunningService(
            name="pipecatapp", pid=os.getpid(), port=1,
            url=empty_house.address, since=datetime.now(UTC),
        )  # fmt: skip
        announce(empty_house, [service])
        app = typer.Typer()
        commands(app)
        shown = CliRunner().invoke(app, ["status", "--state-dir", str(empty_house.state)])

    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert shown.exit_code == 0
    assert f"hourly {datetime.fromisoformat(due).astimezone():%Y-%m-%d %H:%M:%S} keep" in lines
    assert "paused paused keep" in lines
