"""Campaigns that the page starts: a process of the instance, paused, continued and stopped."""

import time
from collections.abc import Iterator
from threading import Event
from typing import Any

import httpx2
import psutil
import pytest

from pipecatapp.application.library import campaigns
from pipecatapp.application.library.campaigns import WORKER
from prompt_engineering.opening import locked
from tests.integration.agent.conftest import House
from tests.integration.agent.evolution.conftest import SEED, archive_folder

SMALL = {"prompt": "classify", "seed": SEED, "candidates": 3}
NAME = "classify-001"
PATIENCE = 60.0


@pytest.fixture
def client(started: House) -> Iterator[httpx2.Client]:
    """Requests of a person to the instance."""
    with started.client() as client:
        yield client


@pytest.fixture
def waiting(held: Event) -> Iterator[Event]:
    """The model answers runs of the first prompt only after this event."""
    held.clear()
    yield held
    held.set()


def until(client: httpx2.Client, state: str, name: str = NAME) -> dict[str, Any]:
    """Wait until a campaign is in a state, and return it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found: dict[str, Any] = client.get("/api/evolution").json()["states"][name]
        if found["state"] == state:
            return found
        time.sleep(0.1)
    raise AssertionError(found)


def workers() -> list[psutil.Process]:
    """The campaign processes that this process has started."""
    return [one for one in psutil.Process().children() if WORKER in one.cmdline()]


def code_of(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]


def test_cost_is_known_before_anything_runs(started: House, client: httpx2.Client) -> None:
    """The estimate is that of `--dry-run`, and leaves no file."""
    cost = client.post("/api/evolution/estimate", json=SMALL).raise_for_status().json()

    assert (cost["search_runs"], cost["gate_runs"], cost["tokens"]) == (15, 80, 20615)
    assert (cost["campaign"], cost["budget"], cost["measured"]) == (NAME, 1_000_000, False)
    assert not archive_folder(started).exists()
    assert started.model.requests == []


def test_campaign_that_does_not_start_in_time_is_ended_and_refused(
    client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process does not go on in secret, and the next start is not refused as a second one."""
    monkeypatch.setattr(campaigns, "STARTED_SECONDS", 0.0)

    answer = client.post("/api/evolution", json=SMALL)

    assert code_of(answer) == (422, "campaign_refused")
    assert "did not start within" in answer.json()["error"]["message"]
    assert workers() == []
    monkeypatch.undo()
    client.post("/api/evolution", json=SMALL).raise_for_status()


def test_campaign_that_was_started_ends_with_a_proposal(client: httpx2.Client) -> None:
    """The process does what the command does."""
    answer = client.post("/api/evolution", json=SMALL)

    assert (answer.status_code, answer.json()) == (201, {"campaign": NAME})
    until(client, "ended")
    found = client.get(f"/api/evolution/{NAME}").json()
    assert found["proposal"]["evidence"]["wins"] == 8
    assert code_of(client.post(f"/api/evolution/{NAME}/resume")) == (409, "campaign_busy")


def test_paused_campaign_goes_on_from_its_files(client: httpx2.Client, waiting: Event) -> None:
    """Pause ends the process; resume ends with the same proposal as a campaign without one."""
    client.post("/api/evolution", json=SMALL).raise_for_status()
    assert len(workers()) == 1
    assert code_of(client.post("/api/evolution", json=SMALL)) == (409, "campaign_busy")

    client.post(f"/api/evolution/{NAME}/pause").raise_for_status()

    assert workers() == []
    assert until(client, "paused") == {"state": "paused", "error": ""}
    assert code_of(client.post(f"/api/evolution/{NAME}/pause")) == (409, "campaign_busy")
    waiting.set()
    client.post(f"/api/evolution/{NAME}/resume").raise_for_status()
    until(client, "ended")
    found = client.get(f"/api/evolution/{NAME}").json()
    assert found["proposal"]["evidence"]["wins"] == 8


def test_stopped_campaign_does_not_go_on(client: httpx2.Client, waiting: Event) -> None:
    """It can neither be paused nor resumed, and what it found stays."""
    client.post("/api/evolution", json=SMALL).raise_for_status()

    client.post(f"/api/evolution/{NAME}/stop").raise_for_status()

    assert workers() == []
    until(client, "stopped")
    for action in ("resume", "stop", "pause"):
        assert code_of(client.post(f"/api/evolution/{NAME}/{action}")) == (409, "campaign_busy")
    assert client.get(f"/api/evolution/{NAME}").json()["campaign"]["campaign"] == NAME


@pytest.mark.parametrize(
    ("change", "status", "code", "message"),
    [
        ({"prompt": "nosuch"}, 422, "campaign_refused", "There is no prompt 'nosuch'."),
        ({"method": "best"}, 422, "campaign_refused", "method: Input should be"),
        ({"budget": 0}, 400, "", "budget"),
    ],
)
def test_invalid_campaign_is_refused_with_a_sentence(
    client: httpx2.Client, change: dict[str, Any], status: int, code: str, message: str
) -> None:
    """Before anything is written."""
    for path in ("/api/evolution/estimate", "/api/evolution"):
        answer = client.post(path, json={**SMALL, **change})

        error = answer.json()["error"]
        assert (answer.status_code, code in error["code"]) == (status, True)
        assert message in error["message"]


def test_campaign_of_a_command_is_not_disturbed(client: httpx2.Client, started: House) -> None:
    """Another process holds the lock: nothing starts, and the state says that it runs there."""
    client.post("/api/evolution", json=SMALL).raise_for_status()
    client.post(f"/api/evolution/{NAME}/pause").raise_for_status()
    with locked(started.state / "evolution"):
        assert until(client, "elsewhere")
        assert code_of(client.post(f"/api/evolution/{NAME}/resume")) == (409, "campaign_busy")
        assert code_of(client.post("/api/evolution", json=SMALL)) == (409, "campaign_busy")


def test_campaign_ends_with_the_service(classify_house: House, held: Event) -> None:
    """No process is left when the service stops; after the next start the campaign is paused."""
    held.clear()
    with classify_house.running(), classify_house.client() as client:
        client.post("/api/evolution", json=SMALL).raise_for_status()
        assert len(workers()) == 1
    held.set()

    assert workers() == []
    with classify_house.running(), classify_house.client() as client:
        until(client, "paused")
