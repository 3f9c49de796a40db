"""`hearth code task`: a real repository and sandbox, a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.code.conftest import follow_until, git, prompts, repository
from tests.integration.agent.conftest import House, Json, ScriptedGateway
from tests.integration.agent.test_cli import Hearth

TEXT = "Add a function that gives the greeting of a person, and a function for farewells."
TEST = "python3 check.py"
CHECK = """from words.greeting import greet
from words.farewell import part

assert greet("Ada") == "Hello, Ada!", greet("Ada")
assert part("Ada") == "Bye, Ada!", part("Ada")
"""
CLARIFIED: Json = {
    "title": "Greet and part",
    "description": "The package words has greet(name) and part(name), each of which gives a text.",
    "question": "",
    "tags": ["greeting", "text"],
}
GREETING_GOAL = "Write words/greeting.py with greet(name)."
FAREWELL_GOAL = "Write words/farewell.py with part(name)."
STEPS: Json = {
    "steps": [
        {"id": "Greeting", "goal": GREETING_GOAL, "kind": "write", "files": ["words/greeting.py"],
         "leaf": True},
        {"id": "farewell", "goal": FAREWELL_GOAL, "kind": "write", "files": ["words/farewell.py"],
         "leaf": True},
    ]
}  # fmt: skip
NOTE = "The text of part ends with an exclamation mark."
ADVICE: Json = {
    "description": "greet and part give a text with a comma and an exclamation mark.",
    "changes": [{"step": "farewell", "goal": "", "note": NOTE, "drop": False}],
}
GOOD: Json = {"good": True, "note": ""}


def module(path: str, name: str, word: str, end: str) -> str:
    return f'Done.\n\n{path}\n```\ndef {name}(name):\n    return "{word}, " + name + "{end}"\n```\n'


GREETING = module("words/greeting.py", "greet", "Hello", "!")
WRONG = module("words/farewell.py", "part", "Bye", ".")
RIGHT = module("words/farewell.py", "part", "Bye", "!")


def script(model: ScriptedGateway) -> None:
    """A model whose first farewell is wrong, and right once it has read the note."""
    when = model.when
    when("Note from an earlier attempt").say(RIGHT)
    when("What went wrong").say(json.dumps(ADVICE))
    when("The change:").say(json.dumps(GOOD))
    when(f"Do this step: {GREETING_GOAL}").say(GREETING)
    when(f"Do this step: {FAREWELL_GOAL}").say(WRONG)
    when("Name the steps").say(json.dumps(STEPS))
    when("").say(json.dumps(CLARIFIED))


def asked_for(house: House, text: str) -> list[str]:
    return [prompt for prompt in prompts(house) if text in prompt]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose check fails, because nothing is written yet."""
    return repository(tmp_path / "words", {"words/__init__.py": "", "check.py": CHECK})


def steps_of(view: Json) -> dict[str, Json]:
    return {step["path"]: step for step in view["steps"]}


def run_of(house: House, repo: Path, **inputs: Any) -> Json:
    """A run of the workflow to its end."""
    body = {
        "workflow": "coding-task",
        "inputs": {"text": TEXT, "repo": str(repo), "test": TEST, **inputs},
        "interactive": False,
    }
    with house.client() as client:
        run = client.post("/api/runs", json=body).json()["run"]
        return follow_until(client, run, "end")


@pytest.mark.proves("003-07", "003-20", "003-26", "003-27", "003-35")
def test_second_attempt_starts_from_the_base_with_the_note_and_the_commit_holds_it_alone(
    house: House, repo: Path
) -> None:
    """The first attempt fails its test; only what the note is about is done again."""
    script(house.model)

    view = run_of(house, repo)

    assert view["status"] == "done", view["error"]
    steps, outputs = steps_of(view), view["outputs"]
    assert (outputs["done"], outputs["attempts"]) == (True, 2)
    base = git(repo, "rev-parse", "main^{tree}").strip()
    assert steps["attempts[1]/clean"]["output"]["tree"] == base
    assert "AssertionError: Bye, Ada." in steps["attempts[1]/description"]["output"]["value"]
    layer = json.loads(steps["attempts[0]/refined"]["output"]["layer"])
    assert layer["append"] == {"farewell.with.notes": [NOTE]}
    assert NOTE in asked_for(house, f"Do this step: {FAREWELL_GOAL}")[1]
    taken = {path for path, step in steps.items() if step["facts"].get("cached")}
    assert {
        "attempts[1]/work/greeting/source",
        "attempts[1]/work/greeting/tries[0]/propose",
        "attempts[1]/work/greeting/tries[0]/edit",
    } <= taken
    assert not any(path.startswith("attempts[1]/work/farewell/tries[0]/p") for path in taken)
    assert len(asked_for(house, f"Do this step: {GREETING_GOAL}")) == 1
    branch = outputs["branch"]
    assert git(repo, "log", "--format=%s", f"main..{branch}") == "Greet and part\n"
    diff = git(repo, "diff", f"main..{branch}")
    assert 'return "Bye, " + name + "!"' in diff
    assert 'name + "."' not in diff
    assert git(repo, "diff", "--name-only", f"main..{branch}").split() == [
        "words/farewell.py",
        "words/greeting.py",
    ]


@pytest.mark.proves("003-31")
def test_stored_task_is_found_again_and_used_as_a_layer(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """The second task is like the first: its plan is the stored one with other goals."""
    fitted = {"changes": [
        {"step": "farewell", "goal": "Write words/farewell.py anew.", "note": "", "drop": False}
    ]}  # fmt: skip
    empty_house.model.when("steps of the stored task").say(json.dumps(fitted))
    empty_house.model.when("Do this step: Write words/farewell.py anew.").say(RIGHT)
    script(empty_house.model)
    first = hearth("code", "task", TEXT, "--repo", str(repo), "--test", TEST, "--json")
    assert json.loads(first.output)["outputs"]["task"] == "task-greet-and-part"
    planned = len(asked_for(empty_house, "Name the steps"))

    second = hearth(
        "code", "task", TEXT, "--repo", str(repo), "--test", TEST, "--reuse", "auto", "--json"
    )

    assert second.exit_code == 0, second.output
    ended = json.loads(second.output)
    assert ended["outputs"]["reused"] == "task-greet-and-part"
    assert ended["outputs"]["attempts"] == 1
    assert ended["outputs"]["task"] is None
    assert len(asked_for(empty_house, "Name the steps")) == planned
    with empty_house.client() as client:
        steps = steps_of(client.get(f"/api/runs/{ended['run']}").json())
        assert client.get("/api/tasks/task-greet-and-part").json()["version"] == 1
    (found,) = steps["stored"]["output"]["tasks"]
    assert found["score"] > 0.6
    assert [step["id"] for step in found["steps"]] == ["greeting", "farewell"]
    layer = json.loads(steps["fitted"]["output"]["layer"])
    assert layer["of"] == "task-greet-and-part"
    assert layer["set"] == {"farewell.with.goal": "Write words/farewell.py anew."}


@pytest.mark.proves("003-29")
def test_person_decides_whether_a_stored_task_is_used(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """The question shows the score; a script that asks nobody plans anew."""
    script(empty_house.model)
    assert hearth("code", "task", TEXT, "--repo", str(repo), "--test", TEST).exit_code == 0
    body = {
        "workflow": "coding-task",
        "inputs": {"text": TEXT, "repo": str(repo), "test": TEST},
        "interactive": True,
    }

    with empty_house.client() as client:
        run = client.post("/api/runs", json=body).json()["run"]
        view = follow_until(client, run, "node.waiting")
        (question,) = [step for step in view["steps"] if step["status"] == "waiting"]
        shown = question["facts"]["question"]
        assert shown["choices"] == ["plan anew", "task-greet-and-part"]
        assert shown["show"][0]["score"] > 0.6
        answer = {"path": question["path"], "value": "plan anew"}
        assert client.post(f"/api/runs/{run}/answer", json=answer).is_success
        view = follow_until(client, run, "end")

    assert view["outputs"]["reused"] is None
    assert view["outputs"]["done"] is True


def test_unclear_task_asks_and_the_answer_is_in_the_description(house: House, repo: Path) -> None:
    """The planner reads what the person said."""
    house.model.when("Name the steps").say(json.dumps(STEPS))
    unclear = {**CLARIFIED, "question": "With an exclamation mark?"}
    house.model.when(lambda request: True).say(json.dumps(unclear))
    script(house.model)
    body = {
        "workflow": "coding-task",
        "inputs": {"text": TEXT, "repo": str(repo), "test": TEST},
        "answers": {"ask": "Yes, with one."},
        "interactive": False,
    }

    with house.client() as client:
        run = client.post("/api/runs", json=body).json()["run"]
        follow_until(client, run, "node.done", "planning")

    (prompt,) = asked_for(house, "Name the steps")
    assert "With an exclamation mark? Yes, with one." in prompt


def test_change_outside_the_allowed_files_is_never_delivered(
    hearth: Hearth, empty_house: House, repo: Path
) -> None:
    """A step that may not touch its file is refused, and the person is told which."""
    script(empty_house.model)

    done = hearth(
        "code", "task", TEXT, "--repo", str(repo), "--test", TEST, "--may-touch", "docs/**"
    )

    assert done.exit_code == 1
    assert "Attempt 1: Nothing was changed." in done.output
    assert git(repo, "branch", "--list", "task/*") == ""


@pytest.mark.proves("003-05", "003-30")
def test_plan_is_split_until_each_step_is_simple_enough(house: House, repo: Path) -> None:
    """A step that the planner calls no leaf is split; the steps hang below it in the graph."""
    whole = {"steps": [{"id": "both", "goal": "Write both functions.", "kind": "write",
                        "files": [], "leaf": False}]}  # fmt: skip
    house.model.when("Name the steps of this part").say(json.dumps(STEPS))
    house.model.when("Name the steps of the task").say(json.dumps(whole))
    script(house.model)

    view = run_of(house, repo)

    assert view["outputs"]["done"] is True
    nodes = {node["path"]: node for node in view["graph"]["nodes"]}
    assert nodes["attempts/work/both"]["parent"] == "attempts/work"
    assert nodes["attempts/work/both/greeting"]["use"] == "workflow/code-step"
    assert nodes["attempts/work/both/farewell"]["about"] == FAREWELL_GOAL
    paths = [step["path"] for step in view["steps"]]
    assert paths.index("background") < paths.index("planning[0]/split[0]")
    assert all("check.py" in prompt for prompt in asked_for(house, "Name the steps"))


def test_branch_is_pushed_to_a_bare_repository(
    hearth: Hearth, empty_house: House, repo: Path, tmp_path: Path
) -> None:
    """The repository that the task works on keeps its branches."""
    git(tmp_path, "clone", "--quiet", "--bare", str(repo), str(tmp_path / "remote.git"))
    script(empty_house.model)

    done = hearth(
        "code", "task", TEXT, "--repo", str(repo), "--test", TEST,
        "--push-to", str(tmp_path / "remote.git"),
    )  # fmt: skip

    assert done.exit_code == 0, done.output
    branch = done.output.splitlines()[-1].removeprefix("The result is on the branch ").rstrip(".")
    assert branch in git(tmp_path / "remote.git", "branch", "--list", "task/*")
    assert git(repo, "branch", "--list", "task/*") == ""
