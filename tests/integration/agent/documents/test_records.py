"""What is kept of a run: the task, each step in its order, models and costs, after restarts too."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.documents.test_refining import ended

Json = dict[str, Any]
REQUEST = "Write a poem about tea for my grandmother."
EVERYWHERE = """
id: everywhere
inputs: {request: text}
steps:
  - {id: plain, use: llm, with: {text: one}}
  - {id: typed, use: llm.json, with: {text: two, returns: {word: text}}}
  - {id: each, for: [1, 2], steps: [{id: deep, use: agent, with: {text: "item {{ item }}"}}]}
  - {id: used, use: workflow/inner, with: {word: three}}
outputs: {text: "{{ plain.text }}"}
"""
INNER = """
id: inner
inputs: {word: text}
steps: [{id: asked, use: llm, with: {messages: [{role: system, content: S}], text: "{{ inputs.word }}"}}]
outputs: {text: "{{ asked.text }}"}
"""  # noqa: E501
LOOP = """
id: loop
inputs: {n: integer}
steps:
  - id: each
    for: [1, 2]
    steps: [{id: part, use: value, with: {value: "{{ item * inputs.n }}"}}]
  - {id: said, use: llm, with: {text: "n {{ each.all[1].part.value }}"}}
outputs: {text: "{{ said.text }}"}
"""


@pytest.mark.proves("000-01")
def test_every_model_is_told_what_the_run_is_for(house: House) -> None:
    """A model deep inside a workflow that does not know the task solves another one."""
    house.model.when("two").say('{"word": "tea"}')
    with house.client() as client:
        client.put("/api/workflows/inner/document", json={"document": INNER})
        body = {"document": EVERYWHERE, "inputs": {"request": REQUEST}}
        view = ended(client, "/api/runs", body)

    assert (view["status"], view["request"]) == ("done", REQUEST)
    assert len(house.model.requests) == 5
    for request in house.model.requests:
        first = request.body["messages"][0]
        assert (first["role"], REQUEST in first["content"]) == ("system", True)


@pytest.mark.proves("000-06")
@pytest.mark.proves("004-21")
@pytest.mark.proves("004-22")
@pytest.mark.proves("002-24")
def test_all_of_a_run_is_there_after_a_restart_whether_it_ended_or_was_cut_off(
    empty_house: House,
) -> None:
    """What happened, in its order, with what ran: nobody has to have looked at the time."""
    empty_house.model.when("hang").say("never ever", pause=60)
    cut_off = LOOP.replace("id: loop", "id: cut").replace(
        '"n {{ each.all[1].part.value }}"', "hang"
    )
    with empty_house.running(), empty_house.client() as client:
        whole = ended(client, "/api/runs", {"document": LOOP, "inputs": {"n": 3}})
        cut = client.post("/api/runs", json={"document": cut_off, "inputs": {"n": 1}}).json()["run"]
        with client.stream("GET", f"/api/runs/{cut}/events") as events:
            assert next(line for line in events.iter_lines() if '"path":"said"' in line)
    with empty_house.running(), empty_house.client() as client:
        listed = client.get("/api/runs").json()["runs"]
        last = client.get("/api/runs", params={"status": "done", "limit": 1}).json()["runs"]
        again = client.get(f"/api/runs/{whole['id']}").json()
        broken = client.get(f"/api/runs/{cut}").json()
        lines = client.get(f"/api/runs/{whole['id']}/export").text.splitlines()
        client.post(f"/api/runs/{cut}/cancel")

    assert [run["id"] for run in listed] == [cut, whole["id"]]
    assert [run["id"] for run in last] == [whole["id"]]
    assert again == whole
    steps = {step["path"]: step for step in whole["steps"]}
    assert list(steps) == ["each", "each[0]", "each[0]/part", "each[1]", "each[1]/part", "said"]
    assert_whole(steps["said"])
    rows = [json.loads(line) for line in lines]
    assert "{{ item * inputs.n }}" in json.dumps(rows[0]["plan"])
    types = [row["type"] for row in rows if row["table"] == "event"]
    assert (types[0], types[-1]) == ("run.started", "run.done")
    assert {step["path"]: step["status"] for step in broken["steps"]} == {
        **dict.fromkeys(steps, "done"), "said": "running"
    }  # fmt: skip


def assert_whole(said: Json) -> None:
    """Tool, model, times, what went in and came out, and what it cost."""
    assert (said["tool"], said["status"], said["model"]) == ("llm", "done", "auto")
    assert said["started"] <= said["ended"]
    assert said["input"]["messages"][-1]["content"] == said["output"]["text"] == "n 6"
    assert said["tokens"]["completion"] > 0


@pytest.mark.proves("003-49")
def test_result_is_addressed_by_the_path_of_its_node(house: House) -> None:
    """The same path names it in the run, in a pin, in a fork and in an expression."""
    with house.client() as client:
        view = ended(client, "/api/runs", {"document": LOOP, "inputs": {"n": 2}})
        path = {"path": "each[1]/part"}
        pin = client.get(f"/api/runs/{view['id']}/pin", params=path).text
        forked = ended(client, f"/api/runs/{view['id']}/fork", {"at": "each[1]/part"})

    outputs = {step["path"]: step["output"] for step in view["steps"]}
    assert outputs["each[1]/part"] == {"value": 4}
    assert "each/part.pinned" in pin
    assert "value: 4" in pin
    known = {step["path"]: "cached" in step["facts"] for step in forked["steps"] if step["tool"]}
    assert known == {"each[0]/part": True, "each[1]/part": False, "said": True}


@pytest.mark.proves("003-10")
def test_cost_of_each_model_is_seen_beside_what_it_did(empty_house: House) -> None:
    """Whether the dear model was worth it is seen step by step."""
    expert = {"healthy": True, "tools": "none", "instances": []}
    empty_house.model.experts = [
        {**expert, "name": "small", "cost": 0.5}, {**expert, "name": "big", "cost": 4.0}
    ]  # fmt: skip
    empty_house.model.when("hello").say("hello to you")
    document = """
id: both
steps:
  - {id: draft, use: llm, model: small, with: {text: hello}}
  - {id: final, use: llm, model: big, with: {text: hello}}
"""
    with empty_house.running(), empty_house.client() as client:
        view = ended(client, "/api/runs", {"document": document})

    steps = {step["path"]: step for step in view["steps"]}
    assert [request.body["model"] for request in empty_house.model.requests] == ["small", "big"]
    for path, cost in (("draft", 0.5), ("final", 4.0)):
        tokens = steps[path]["tokens"]
        assert tokens["cost"] == cost * (tokens["prompt"] + tokens["completion"]) > 0
    costs = [steps[path]["tokens"]["cost"] for path in ("draft", "final")]
    assert view["tokens"]["cost"] == sum(costs)


@pytest.mark.proves("003-14")
def test_workflows_are_files_that_git_compares_line_by_line(empty_house: House) -> None:
    """Who keeps the folder under version control sees what was changed, and can go back."""
    folder = empty_house.state / "workflows"

    def git(*words: str) -> str:
        named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout

    with empty_house.running(), empty_house.client() as client:
        client.put("/api/workflows/loop/document", json={"document": LOOP})
        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "first")
        etag = client.get("/api/workflows/loop/document").json()["etag"]
        operations = [{"op": "set", "path": "said.with.text", "value": "hello"}]
        body = {"operations": operations}
        client.patch("/api/workflows/loop", json=body, headers={"if-match": etag})
        changed = git("diff", "-U0").splitlines()
        edited = ended(client, "/api/runs", {"workflow": "loop", "inputs": {"n": 1}})
    git("checkout", "-q", "loop.yaml")
    with empty_house.running(), empty_house.client() as client:
        before = ended(client, "/api/runs", {"workflow": "loop", "inputs": {"n": 1}})

    assert [line for line in changed if line[:2] in ("+ ", "- ")] == [
        '-  - {id: said, use: llm, with: {text: "n {{ each.all[1].part.value }}"}}',
        '+  - {id: said, use: llm, with: {text: "hello"}}',
    ]
    assert (edited["outputs"], before["outputs"]) == ({"text": "hello"}, {"text": "n 2"})
    assert Path(folder, "loop.yaml").read_text(encoding="utf-8") == LOOP
