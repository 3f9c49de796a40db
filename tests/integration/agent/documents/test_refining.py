"""Plans that are seen before they run, and refined when they failed: the graph, not the words."""

from typing import Any

import httpx2
import pytest

from tests.integration.agent.conftest import House

Json = dict[str, Any]
GRAPH = """
id: GRAPH
inputs: {n: integer}
graph:
  - {id: a, use: value, with: {value: "{{ inputs.n }}"}}
  - {id: b, use: value, with: {value: "{{ a.value }}"}}
  - {id: c, use: value, with: {value: 1}, needs: [b]}
  - {id: aside, use: value, with: {value: 2}}
outputs: {n: "{{ c.value }}"}
"""
TASK = """
id: task
inputs: {request: text}
steps:
  - {id: plan, use: llm, with: {text: "Plan: {{ inputs.request }}"}}
  - {id: facts, use: value, with: {value: "{{ plan.text }}"}}
  - id: code
    use: llm
    check: {"it does not add": "{{ '+' in code.text }}"}
    with:
      messages: [{role: user, content: "Write a sum. {{ facts.value }}"}]
  - {id: told, use: value, with: {value: "{{ code.text }}"}}
outputs: {text: "{{ told.value }}"}
"""
LAYER = """
kind: layer
id: {id}
of: task
append:
  code.with.messages: [{{role: user, content: "{text}"}}]
"""


def layer(id: str, text: str) -> str:
    return LAYER.format(id=id, text=text)


def ended(client: httpx2.Client, path: str, body: Json) -> Json:
    """A run, at its end, that a request to `path` starts."""
    run = client.post(path, json=body).raise_for_status().json()["run"]
    with client.stream("GET", f"/api/runs/{run}/events") as events:
        events.read()
    view: Json = client.get(f"/api/runs/{run}").json()
    return view


def came_about(view: Json) -> dict[str, str]:
    """`cached` for each step that was taken over, else its status."""
    return {
        step["path"]: "cached" if "cached" in step["facts"] else step["status"]
        for step in view["steps"]
    }


@pytest.mark.proves("000-33")
@pytest.mark.proves("001-35")
def test_workflow_is_chosen_by_name_and_its_graph_seen_before_it_runs(house: House) -> None:
    """Order comes from what is read and what is needed; what cannot be is told with its way."""
    cycle = GRAPH.replace('"{{ inputs.n }}"', '"{{ c.value }}"')
    with house.client() as client:
        for name in ("one", "two"):
            text = GRAPH.replace("GRAPH", name)
            client.put(f"/api/workflows/{name}/document", json={"document": text})
        plans = [
            client.post("/api/plan", json={"workflow": name}).json() for name in ("one", "two")
        ]
        wrong = client.post("/api/plan", json={"document": cycle.replace("GRAPH", "round")}).json()
        view = ended(client, "/api/runs", {"workflow": "two", "inputs": {"n": 3}})

    assert [plan["text"].splitlines()[0] for plan in plans] == [
        "workflow one (version 1)", "workflow two (version 1)"
    ]  # fmt: skip
    edges = {(edge["from"], edge["to"], edge["kind"]) for edge in plans[1]["graph"]["edges"]}
    assert edges == {("a", "b", "data"), ("b", "c", "order")}
    assert "  b: value [pure]\n        after a" in plans[1]["text"]
    (warning,) = plans[1]["warnings"]
    assert "'aside' is not connected" in warning["said"]
    assert (warning["line"], plans[1]["diagnostics"]) == (8, [])
    assert "a cycle: a → c → b → a" in wrong["text"]
    assert (wrong["graph"], view["outputs"]) == (None, {"n": 1})
    assert [step["path"] for step in view["steps"] if step["path"] != "aside"] == ["a", "b", "c"]


@pytest.mark.proves("003-03")
def test_prompt_is_composed_of_layers_and_each_part_shows_its_origin(house: House) -> None:
    """Who wonders why a model says something finds who told it."""
    house.model.when("Write").say("1 + 1")
    laid = [layer("team", "Use short names."), layer("mine", "Be brief.")]
    body = {"document": TASK, "layers": laid}
    with house.client() as client:
        ended(client, "/api/runs", {**body, "inputs": {"request": "a sum"}})
        look = {**body, "path": "code.with.messages"}
        opinions = client.post("/api/plan/explain", json=look).json()["opinions"]

    messages = house.model.requests[-1].body["messages"]
    assert [message["content"] for message in messages if message["role"] == "user"] == [
        "Write a sum. Plan: a sum", "Use short names.", "Be brief."
    ]  # fmt: skip
    assert [(one["by"], one["what"]) for one in opinions][:3] == [
        ("layer mine", "append"), ("layer team", "append"), ("workflow task", "written"),
    ]  # fmt: skip
    assert all(one["place"] for one in opinions)


@pytest.mark.proves("003-07")
@pytest.mark.proves("003-35")
def test_layer_refines_what_failed_and_only_what_follows_runs_again(house: House) -> None:
    """A step that failed gets better inputs; nobody asks it to judge itself."""
    house.model.when("Mind the plus.").say("1 + 1")
    house.model.when("Write").say("two")
    with house.client() as client:
        body = {"document": TASK, "inputs": {"request": "a sum"}}
        failed = ended(client, "/api/runs", body)
        asked = len(house.model.requests)
        refined = {"document": TASK, "layers": [layer("note", "Mind the plus.")]}
        again = ended(client, f"/api/runs/{failed['id']}/fork", refined)
        of_again = house.model.requests[asked:]
        anew = ended(client, f"/api/runs/{failed['id']}/fork", {**refined, "at": "plan"})

    assert (failed["status"], failed["error"]) == ("failed", "code: check: it does not add")
    assert again["outputs"] == {"text": "1 + 1"}
    assert came_about(again) == {
        "plan": "cached", "facts": "cached", "code": "done", "told": "done"
    }  # fmt: skip
    (request,) = of_again
    assert request.body["messages"][-1]["content"] == "Mind the plus."
    assert came_about(anew)["plan"] == "done"
    assert anew["outputs"] == again["outputs"]
    assert next(step["path"] for step in anew["steps"]) == "plan"


@pytest.mark.proves("003-06")
def test_progress_and_decisions_are_seen_while_it_runs(house: House) -> None:
    """What is planned, what was decided and why, and where it stands."""
    text = """
id: long
steps:
  - {id: size, use: value, with: {value: 3}}
  - {id: big, if: "{{ size.value > 9 }}", use: value, with: {value: big}}
  - {id: sure, use: human.ask, with: {question: Sure?}}
  - {id: last, use: value, with: {value: "{{ sure.answer }}"}}
"""
    with house.client() as client:
        run = client.post("/api/runs", json={"document": text}).json()["run"]
        with client.stream("GET", f"/api/runs/{run}/events") as events:
            seen = next(line for line in events.iter_lines() if "node.waiting" in line)
        view = client.get(f"/api/runs/{run}").json()
        events_so_far = client.get(f"/api/runs/{run}/export").text
        client.post(f"/api/runs/{run}/cancel")

    assert seen
    assert [node["path"] for node in view["graph"]["nodes"]] == ["size", "big", "sure", "last"]
    assert came_about(view) == {"size": "done", "big": "skipped", "sure": "waiting"}
    assert "its `if` is false" in events_so_far
    assert view["status"] == "waiting"
