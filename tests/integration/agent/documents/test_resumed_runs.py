"""Runs that go on after a crash, while models are still starting."""

from typing import Any

import httpx2

from tests.integration.agent.conftest import House, follow
from tests.integration.gateway.conftest import wait_until

ASK = """
id: ask
inputs: {model: boolean}
steps:
  - {id: sure, use: human.ask, with: {question: Go on?}}
  - {id: words, if: "{{ inputs.model }}", use: llm, with: {text: hello}}
  - {id: last, use: value, with: {value: over}}
outputs: {last: "{{ last.value }}"}
"""


def start(client: httpx2.Client, *, model: bool) -> str:
    body = {"document": ASK, "inputs": {"model": model}}
    run = str(client.post("/api/runs", json=body).raise_for_status().json()["run"])
    with client.stream("GET", f"/api/runs/{run}/events") as events:
        follow(events, until="node.waiting")
    return run


def answer(client: httpx2.Client, run: str) -> None:
    body = {"path": "sure", "value": "yes"}
    client.post(f"/api/runs/{run}/answer", json=body).raise_for_status()


def end(client: httpx2.Client, run: str) -> dict[str, Any]:
    with client.stream("GET", f"/api/runs/{run}/events") as events:
        follow(events)
    return view(client, run)


def view(client: httpx2.Client, run: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/runs/{run}").raise_for_status().json()
    return found


def test_only_steps_that_ask_a_model_wait_for_one_after_a_crash(empty_house: House) -> None:
    """A night's work that needs no model stood still for two minutes, because one was slow."""
    empty_house.model.when("hello").say("Words.")
    with empty_house.running(), empty_house.client() as client:
        plain, asking = start(client, model=False), start(client, model=True)
    empty_house.model.expert["healthy"] = False
    with empty_house.running(), empty_house.client() as client:
        for run in (asking, plain):
            answer(client, run)
        ended = end(client, plain)
        wait_until(lambda: view(client, asking)["steps"][0]["status"] == "done")
        fresh = start(client, model=False)  # A moment in which the step could have asked.
        answer(client, fresh)
        end(client, fresh)
        waits, before = view(client, asking), len(empty_house.model.requests)
        empty_house.model.expert["healthy"] = True
        asked = end(client, asking)

    assert (ended["status"], ended["outputs"]) == ("done", {"last": "over"})
    assert (waits["status"], before) == ("running", 0)
    assert (asked["status"], asked["outputs"]) == ("done", {"last": "over"})
    assert [step["path"] for step in asked["steps"]] == ["sure", "words", "last"]
