"""Files of older programs become workflows that run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import announce, command

OLD = Path(__file__).parent / "old"
Json = dict[str, Any]

PIPELINES = {
    "engineering": ["code_plan", "code", "working_code", "modified_code", "readme"],
    "task": ["plan", "remarks", "better_plan", "doubts", "final_plan"],
    "advertising": ["advert_plan", "slogan"],
    "story": ["story", "illustration"],
    "translation": ["translation"],
}
"""The five that OrchestrAI ships, and what each gives."""
READ: dict[str, list[list[str | int]]] = {
    "engineering": [["request"], [0], [1], [2], [3]],
    "task": [["request"], ["request", 0], ["request", 0, 1], ["request", 2], ["request", 2, 3]],
    "advertising": [["request"], ["request", 0]],
    "story": [["request"], ["request", 0]],
    "translation": [["request"]],
}
"""What each module is given, in their order: the request, and answers by their number."""


def imported(house: House, name: str, **more: Any) -> Json:
    text = (OLD / name).read_text(encoding="utf-8")
    with house.client() as client:
        answer = client.post("/api/import", json={"text": text, "file": name, **more})
    answer.raise_for_status()
    found: Json = answer.json()
    return found


def ran(house: House, document: str, inputs: Json) -> Json:
    with house.client() as client:
        body = {"document": document, "inputs": inputs, "interactive": False}
        body |= {"answers": {"modified_code_wish": "Add colours."}}
        run = client.post("/api/runs", json=body).raise_for_status().json()["run"]
        with client.stream("GET", f"/api/runs/{run}/events") as events:
            events.read()
        view: Json = client.get(f"/api/runs/{run}").json()
    return view


def said(number: int) -> str:
    return f"answer number {number}"


@pytest.mark.proves("000-29")
@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline_runs_as_a_workflow_that_does_the_same(house: House, name: str) -> None:
    """Years of pipelines must not be typed again: same modules, same inputs, same order."""
    gives = PIPELINES[name]
    script = house.model.when(lambda _request: True)
    for number in range(len(gives)):
        script.say(said(number))

    found = imported(house, f"{name}_pipeline.yml")
    view = ran(house, found["document"], {"request": "A clock in the terminal."})

    assert found["plan"]["diagnostics"] == []
    assert view["error"] is None
    assert view["outputs"] == {
        **{one: said(number) for number, one in enumerate(gives)},
        "text": said(len(gives) - 1),
    }
    assert [read_by(one.body) for one in house.model.requests] == READ[name]


def read_by(body: Json) -> list[str | int]:
    """What a module was given; the request stands in every system text, so only the rest counts."""
    given = " ".join(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    known: dict[str | int, str] = {"request": "A clock in the terminal."}
    known |= {number: said(number) for number in range(5)}
    return [name for name, text in known.items() if text in given]


def test_pipeline_keeps_what_each_module_said_of_its_model(house: House) -> None:
    """Temperature, length and language were chosen; a model that is not here is asked for."""
    script = house.model.when(lambda _request: True)
    script.say("plan").say("slogan")

    found = imported(house, "advertising_pipeline.yml", models={"gpt-4": "scripted"})
    ran(house, found["document"], {"request": "Soup."})

    plan, slogan = (one.body for one in house.model.requests)
    assert (slogan["model"], slogan["temperature"]) == ("scripted", 1.2)
    assert "For people who cook at home." in json.dumps(plan["messages"])
    assert [one["said"] for one in found["look_at"]] == [
        "advertising_pipeline.yml:13:7: `top_p` cannot be set here"
    ]


def test_pipeline_asks_the_person_whom_its_module_asked(house: House) -> None:
    """The wish of a person reaches the model that changes the code."""
    house.model.when(lambda _request: True).say("code")

    found = imported(house, "engineering_pipeline.yml")
    view = ran(house, found["document"], {"request": "A clock."})

    change = next(step for step in view["steps"] if step["path"] == "modified_code")
    assert "Add colours." in json.dumps(change["input"])


def test_loop_of_the_old_agent_becomes_one_agent(house: House) -> None:
    """Parser, branch and executor were the loop that an agent is; the answer is the same."""
    rule = house.model.when("What is")
    rule.call_tool("time_now", {"zone": "UTC"})
    house.model.when(lambda request: request.messages[-1].role == "tool").say("It is late.")

    found = imported(house, "agent_loop.yaml")
    view = ran(house, found["document"], {"user_text": "What is the time?"})

    assert view["error"] is None
    assert view["outputs"] == {"final_response": "It is late.", "text": "It is late."}
    assert "model/turn[1]/call[0]" in [step["path"] for step in view["steps"]]
    told = [one["said"] for one in found["look_at"]]
    assert (
        "agent_loop.yaml:26:11: nothing here is a ScreenshotNode. Steps that read it get no value"
        in told
    )


def test_connected_models_stay_connected(house: House) -> None:
    """What one gave is what the other reads; a merge takes the first that is there."""
    script = house.model.when(lambda _request: True)
    script.say("quick words").say("careful words")

    found = imported(house, "two_models.yaml")
    view = ran(house, found["document"], {"user_text": "Hello."})

    assert view["outputs"] == {"answer": "careful words", "text": "careful words"}
    assert "quick words" in json.dumps(house.model.requests[1].body["messages"])


WRONG = """pipeline:
  - {module: start_module, output_name: request}
  - {module: code_planner, inputs: [requestt], output_name: plan, speed: 3}
  - {module: unheard_of, inputs: [plan], output_name: plan}
  - {module: unheard_of, inputs: [plan], output_name: text, supplement: "Braces: {{ x }}"}
"""


def test_what_cannot_be_imported_is_told_with_its_place(house: House) -> None:
    """A silent gap in a pipeline is found when its result is wrong."""
    house.model.when(lambda _request: True).say("words")
    with house.client() as client:
        found = client.post("/api/import", json={"text": WRONG, "file": "old.yml"}).json()

    view = ran(house, found["document"], {"request": "x"})

    assert [one["said"] for one in found["look_at"]] == [
        "old.yml:3:37: nothing gives 'requestt'. Did you mean 'request'?",
        "old.yml:3:67: `speed` has no meaning here",
        "old.yml:4:55: 'plan' is given twice. Rename one of them",
        "old.yml:5:14: no prompt has the tag 'unheard_of'. Keep one with the tag unheard_of, then"
        " import again",
    ]
    assert "# Look at: old.yml:3:37:" in found["document"]
    assert view["error"] is None
    assert "Braces: {{ x }}" in json.dumps(house.model.requests[-1].body["messages"])


def test_file_of_another_kind_is_refused(house: House) -> None:
    """A workflow of today, or a shopping list, is no old pipeline."""
    with house.client() as client:
        answer = client.post("/api/import", json={"text": "steps: []", "file": "new.yaml"})

    assert answer.status_code == 422
    assert "new.yaml:1:1: no file to import" in answer.json()["error"]["message"]


@pytest.mark.parametrize("place", ["instance", "ledger"])
def test_shell_writes_the_workflow_and_tells_the_rest(
    place: str, empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hearth import` writes a file that `hearth plan` takes, with an instance and without."""
    hearth = command(empty_house, monkeypatch)
    old, new = OLD / "advertising_pipeline.yml", tmp_path / "new.yaml"

    def both() -> None:
        ended = hearth("import", str(old), "--model", "gpt-4=default", "-o", str(new))
        assert ended.exit_code == 0, ended.output
        assert "`top_p` cannot be set here" in ended.stderr
        assert hearth("plan", str(new)).exit_code == 0
        assert hearth("import", str(new)).exit_code == 2

    if place == "ledger":
        both()
        return
    with empty_house.running():
        announce(empty_house)
        both()
