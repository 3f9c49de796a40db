"""`/api/runs` and what belongs to it: starting, listing, looking, following, cancelling."""

import json
import threading
from typing import Any

import httpx2
import pytest

from hearth.openai_api.sse import SseEvent, SseReader
from tests.integration.agent.conftest import House, follow
from tests.integration.local.conftest import wait_for

DRAFTS = """
id: drafts
inputs: {topic: text}
graph:
  - {id: one, use: llm, model: default, with: {text: "one {{ inputs.topic }}"}}
  - {id: two, use: llm, model: default, with: {text: "two {{ inputs.topic }}"}}
outputs:
  both: "{{ one.text }} | {{ two.text }}"
"""


def start(client: httpx2.Client, text: str = "hello", **more: Any) -> str:
    body = {"workflow": "agent-turn", "inputs": {"text": text}, **more}
    answer = client.post("/api/runs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run"])


def test_run_of_a_document_is_followed_to_its_end_and_looked_at(house: House) -> None:
    """What the web page and the shell do with a file that is not yet in the library."""
    with house.client() as client:
        body = {"document": DRAFTS, "inputs": {"topic": "snow"}}
        run = client.post("/api/runs", json=body).json()["run"]
        with client.stream("GET", f"/api/runs/{run}/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            seen = follow(answer)
        view = client.get(f"/api/runs/{run}").json()

    types = [event.event for event in seen if event.event != "delta"]
    assert types[0] == "run.started"
    assert types[-2:] == ["run.done", "end"]
    assert [int(event.id) for event in seen if event.event.startswith("node")] == sorted(
        int(event.id) for event in seen if event.event.startswith("node")
    )
    assert view["outputs"] == {"both": "one snow | two snow"}
    assert {node["id"] for node in view["graph"]["nodes"]} == {"one", "two"}
    assert {step["status"] for step in view["steps"]} == {"done"}


def test_run_goes_on_when_the_one_who_started_it_by_the_api_is_gone(house: House) -> None:
    """A run is not a request: closing the page does not stop it."""
    house.model.when("hello").say("a b c", pause=0.1)
    with house.client() as client:
        run = start(client)
        with client.stream("GET", f"/api/runs/{run}/events") as answer:
            follow(answer, until="node.running")
        with client.stream("GET", f"/api/runs/{run}/events") as answer:
            assert follow(answer)[-1].event == "end"

        assert client.get(f"/api/runs/{run}").json()["outputs"]["text"] == "a b c"


def test_follower_who_comes_back_gets_what_it_missed_and_nothing_twice(house: House) -> None:
    """A browser that lost its connection sends the id of the last event that it saw."""
    held, reader = threading.Event(), SseReader()
    house.model.when("hello").say("one two three four", held=held, held_after=1)
    with house.client() as client:
        run = start(client)
        address = f"/api/runs/{run}/events"
        with client.stream("GET", address) as answer:
            first = follow(answer, until="delta")
        last = [event.id for event in first if event.event != "delta"][-1]
        second: list[SseEvent] = []
        with client.stream("GET", address, headers={"Last-Event-ID": last}) as answer:
            for data in answer.iter_bytes():
                second += reader.feed(data)
                if any(event.event == "delta" for event in second):
                    held.set()
        with client.stream("GET", f"{address}?after=0") as answer:
            whole = follow(answer)

    def numbered(events: list[SseEvent]) -> list[tuple[str, str]]:
        return [(e.id, e.event) for e in events if e.event not in ("delta", "end")]

    assert numbered(first) + numbered(second) == numbered(whole)
    envelopes = [json.loads(e.data) for e in whole if e.event not in ("delta", "end")]
    told = [(str(one["seq"]), one["v"]) for one in envelopes]
    assert told == [(id, 1) for id, _ in numbered(whole)]
    said = ""
    for event in second:
        if event.event == "delta":
            delta = json.loads(event.data)
            said = said[: delta["offset"]] + delta["text"]
    assert said == "one two three four"


def test_cancelled_run_stops_the_model_and_stays_cancelled(house: House) -> None:
    """The stop button is for what costs something now."""
    house.model.when("hello").say("word " * 1000, pause=0.05)
    with house.client() as client:
        run = start(client)
        house.model.wait_until(lambda model: model.words_sent > 0)
        first = client.post(f"/api/runs/{run}/cancel").json()
        house.model.wait_until(lambda model: model.aborted == 1)
        second = client.post(f"/api/runs/{run}/cancel").json()

    assert first["status"] == "cancelled"
    assert second == first


def test_list_of_runs_comes_in_pages_newest_first(house: House) -> None:
    """A house that has run for a year has more runs than fit a page."""
    with house.client() as client:
        runs = [start(client, text=f"number {n}") for n in range(3)]
        first = client.get("/api/runs", params={"limit": 2}).json()
        rest = client.get("/api/runs", params={"limit": 2, "before": first["next"]}).json()

    assert [run["id"] for run in first["runs"] + rest["runs"]] == runs[::-1]
    assert rest["next"] is None
    assert first["runs"][0]["title"] == "number 2"


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        ({"workflow": "agent-trun"}, 404, "workflow_not_found", "Did you mean 'agent-turn'?"),
        ({"document": "id: x\nstep: []\n"}, 422, "invalid_document", "doc.yaml:2:1"),
        ({"workflow": "agent-turn", "inputs": {"txt": "x"}}, 422, "invalid_inputs", "'txt'"),
        ({"workflow": "agent-turn", "input": {}}, 400, "unknown_parameter", "'input'"),
        ({"workflow": "a", "document": "b"}, 400, "invalid_value", "either"),
        ({}, 400, "invalid_value", "either"),
    ],
)
def test_wrong_start_is_refused_with_the_place_of_the_mistake(
    house: House, body: dict[str, Any], status: int, code: str, said: str
) -> None:
    """Nothing is started by half; what is wrong is told where it stands."""
    with house.client() as client:
        answer = client.post("/api/runs", json={"file": "doc.yaml", **body})

        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert said in answer.json()["error"]["message"]
        assert client.get("/api/runs").json()["runs"] == []


def test_start_that_is_not_sent_as_json_is_told_the_header(house: House) -> None:
    """curl's `-d` sends a form."""
    with house.client() as client:
        form = {"content-type": "application/x-www-form-urlencoded"}
        answer = client.post("/api/runs", content=b'{"workflow": "agent-turn"}', headers=form)

    assert answer.status_code == 415
    assert "with the header Content-Type: application/json" in answer.json()["error"]["message"]


def test_unknown_run_is_404_on_every_route(house: House) -> None:
    """A link to a run of another instance must say so."""
    with house.client() as client:
        answers = [
            client.get("/api/runs/nobody"),
            client.get("/api/runs/nobody/events"),
            client.post("/api/runs/nobody/cancel"),
        ]

    assert {(a.status_code, a.json()["error"]["code"]) for a in answers} == {(404, "run_not_found")}


def test_plan_shows_the_graph_or_every_mistake(house: House) -> None:
    """The editor asks before anything runs."""
    with house.client() as client:
        good = client.post("/api/plan", json={"document": DRAFTS}).json()
        bad = client.post(
            "/api/plan", json={"document": "id: x\nsteps: [{id: a, use: lm}]\n", "file": "x.yaml"}
        ).json()

    assert [node["id"] for node in good["graph"]["nodes"]] == ["one", "two"]
    assert good["inputs"]["required"] == ["topic"]
    assert (good["diagnostics"], bad["graph"]) == ([], None)
    (wrong,) = bad["diagnostics"]
    assert (wrong["file"], wrong["line"]) == ("x.yaml", 2)
    assert wrong["said"].startswith("x.yaml:2:")
    assert "llm" in wrong["said"]


def test_workflows_are_listed_with_what_they_take_and_give(house: House) -> None:
    """The page makes a form of the input schema."""
    with house.client() as client:
        listed = client.get("/api/workflows").json()["workflows"]
        one = client.get("/api/workflows/agent-turn").json()
        unknown = client.get("/api/workflows/agent-trun")

    cards = {card["id"]: card for card in listed}
    assert cards["agent-turn"]["model"] == "agent"
    assert "text" in one["inputs"]["properties"]
    assert [node["id"] for node in one["graph"]["nodes"]] == ["history", "reply"]
    assert {k: one[k] for k in cards["agent-turn"]} == cards["agent-turn"]
    assert unknown.status_code == 404


def test_status_tells_services_experts_and_how_busy_the_agent_is(house: House) -> None:
    """The page shows it as a table that people read."""
    house.model.when("hello").hang()
    with house.client() as client:
        start(client)
        house.model.wait_until(lambda model: model.running == 1)
        status = client.get("/api/status").json()

    assert [(s["name"], s["healthy"]) for s in status["services"]] == [("moe-gateway", True)]
    assert status["experts"][0]["name"] == "scripted"
    assert status["agent"] == {"runs_running": 1}


def test_metrics_count_runs_steps_and_tokens(house: House) -> None:
    """Grafana draws them; the labels are names that we chose, never text of people."""
    house.ask("hello there")
    with house.client() as client:
        client.post("/api/runs", json={"document": DRAFTS, "inputs": {"topic": "x"}})
        wait_for_runs(client, 2)
        # Who follows a run may hear of its end a moment before it is counted.
        text = wait_for(
            lambda: found if "pipecatapp_runs_running 0.0" in (found := metrics(house)) else None,
            "no run is under way",
        )

    assert 'pipecatapp_runs_total{status="done",workflow="agent-turn"} 1.0' in text
    assert 'pipecatapp_runs_total{status="done",workflow="document"} 1.0' in text
    assert 'pipecatapp_tool_calls_total{status="done",tool="llm"} 3.0' in text
    assert 'pipecatapp_tokens_total{kind="completion"} 6.0' in text


def metrics(house: House) -> str:
    return httpx2.get(f"{house.address}/metrics", timeout=60).text


def wait_for_runs(client: httpx2.Client, count: int) -> None:
    """Follow each run to its end."""
    runs = client.get("/api/runs").json()["runs"]
    assert len(runs) == count
    for run in runs:
        with client.stream("GET", f"/api/runs/{run['id']}/events") as answer:
            follow(answer)
