"""`hearth code task`: a real repository and sandbox, a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.code.conftest import follow_until, git, prompts, repository
from tests.integration.agent.conftest import House, Json

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


def script(house: House) -> None:
    """A model whose first farewell is wrong, and right once it has read the note."""
    when = house.model.when
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


@pytest.mark.proves("003-20")
def test_second_attempt_starts_from_the_base_with_the_note_and_the_commit_holds_it_alone(
    house: House, repo: Path
) -> None:
    """The first attempt fails its test; only what the note is about is done again."""
    script(house)

    view = run_of(house, repo)

    assert view["status"] == "done", view["error"]
    steps, outputs = steps_of(view), view["outputs"]
    assert (outputs["done"], outputs["attempts"]) == (True, 2)
    base = git(repo, "rev-parse", "main^{tree}").strip()
    assert steps["attempts[1]/clean"]["output"]["tree"] == base
    assert "AssertionError: Bye, Ada." in steps["attempts[1]/description"]["output"]["value"]
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
