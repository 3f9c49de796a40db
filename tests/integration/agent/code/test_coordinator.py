"""The workflow `coordinator`: a real repository and sandbox, a scripted model, a person."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.integration.agent.code.conftest import follow_until, git, prompts
from tests.integration.agent.code.test_coding_task import (
    FAREWELL_GOAL,
    GREETING,
    GREETING_GOAL,
    RIGHT,
    TEST,
    WRONG,
    asked_for,
    repo,
    steps_of,
)
from tests.integration.agent.conftest import House, Json
from tests.integration.agent.test_cli import Hearth

EXTENDED_INPUTS = [
    "pipecatapp/workflows/coordinator.yaml", "pipecatapp/workflows/debug-step.yaml",
    "pipecatapp/tools/check/progress.py",
]  # fmt: skip

__all__ = ["repo"]
EXTRA_GOAL = "Write words/extra.py with more(name)."
ADDED = "Write words/notes.py with a comment."
FILES = ["words/greeting.py", "words/farewell.py"]


def plan(*more: tuple[str, str, str]) -> Json:
    """A plan with the greeting, the farewell, and items of id, goal and file."""
    items = [("greeting", GREETING_GOAL, FILES[0]), ("farewell", FAREWELL_GOAL, FILES[1]), *more]
    return {
        "summary": "Greetings and farewells.",
        "structure": [{"path": path, "purpose": id} for id, _, path in items],
        "items": [
            {"id": id, "goal": goal, "kind": "write", "files": [path], "leaf": True}
            for id, goal, path in items
        ],
    }


def body(repo: Path, *, interactive: bool = False, **answers: str) -> Json:
    inputs = {"text": "Greet and part.", "repo": str(repo), "test": TEST}
    return {
        "workflow": "coordinator",
        "inputs": inputs,
        "interactive": interactive,
        "answers": answers,
    }


def start(client: httpx2.Client, sent: Json) -> str:
    answer = client.post("/api/runs", json=sent)
    assert answer.is_success, answer.text
    return str(answer.json()["run"])


def question_at(client: httpx2.Client, run: str, path: str) -> Json:
    """Wait for a question at a path and return it."""
    steps = steps_of(follow_until(client, run, "node.waiting", path))
    asked: Json = steps[path]["facts"]["question"]
    return asked


def answer(client: httpx2.Client, run: str, path: str, value: Any) -> None:
    told = client.post(f"/api/runs/{run}/answer", json={"path": path, "value": value})
    assert told.is_success, told.text


@dataclass
class Changed:
    """A run whose list a person has changed while its first item was being done."""

    view: Json
    items: dict[str, Json]
    shown: list[str]
    """What the commands printed: the list, after striking, too late, unknown, after adding."""


@pytest.fixture
def changed(hearth: Hearth, empty_house: House, repo: Path) -> Changed:
    """The first item waits until the list is changed."""
    gate, when = threading.Event(), empty_house.model.when
    when(f"Do this step: {ADDED}").say("Done.\n\nwords/notes.py\n```\n# Notes.\n```\n")
    when(lambda request: f"Do this step: {GREETING_GOAL}" in str(request.messages[-1].content)
         and gate.wait(60)).say(GREETING)  # fmt: skip
    when(f"Do this step: {FAREWELL_GOAL}").say(RIGHT)
    when("").say(json.dumps(plan(("extra", EXTRA_GOAL, "words/extra.py"))))
    sent = body(repo, accept="deliver")
    sent["inputs"]["may_touch"] = ["words/notes.py"]
    with empty_house.client() as client:
        run = start(client, sent)
        follow_until(client, run, "node.running", "rounds[0]/work/greeting/tries[0]/propose")
        options: tuple[tuple[str, ...], ...] = (
            (), ("--strike", "extra"), ("--strike", "greeting"), ("--strike", "farwell"),
            ("--add", ADDED),
        )  # fmt: skip
        shown = [hearth("runs", "todo", run, *words).output for words in options]
        gate.set()
        view = follow_until(client, run, "end")
        items = client.get(f"/api/runs/{run}/todo").json()["items"]
    return Changed(view, {item["id"]: item for item in items}, shown)


@pytest.mark.proves("002-14")
def test_command_shows_the_list_and_says_what_cannot_be_struck(changed: Changed) -> None:
    """An item that has begun is not struck, and a misspelt one is not guessed."""
    listed, struck, late, unknown, more = changed.shown

    assert [line.split(":")[0].split() for line in listed.splitlines()] == [
        ["running", "greeting"], ["open", "farewell"], ["open", "extra"]
    ]  # fmt: skip
    assert "struck    extra" in struck
    assert "it has begun" in late
    assert "Did you mean 'farewell'?" in unknown
    assert f"open      added-1: {ADDED}" in more


@pytest.mark.proves("002-13")
def test_struck_item_is_never_begun_and_an_added_one_is_done_after_the_others(
    changed: Changed,
    empty_house: House,
    repo: Path,
) -> None:
    """The states of the list are those of the nodes."""
    steps, outputs = steps_of(changed.view), changed.view["outputs"]

    assert steps["rounds[0]/work/extra"]["status"] == "skipped"
    assert "struck off the to-do list by cli" in steps["rounds[0]/work/extra"]["error"]
    assert asked_for(empty_house, f"Do this step: {EXTRA_GOAL}") == []
    assert {id: item["state"] for id, item in changed.items.items()} == {
        "greeting": "done", "farewell": "done", "extra": "struck", "added_1": "done"
    }  # fmt: skip
    assert changed.items["added_1"]["path"] == "rounds[1]/work/added_1"
    assert outputs["missing"] == ["words/extra.py"]
    assert (outputs["done"], outputs["outside"]) == (True, [])
    assert git(repo, "diff", "--name-only", f"main..{outputs['branch']}").split() == [
        "words/farewell.py", "words/greeting.py", "words/notes.py"
    ]  # fmt: skip


@pytest.mark.proves("002-11", "002-12")
def test_missing_file_of_the_structure_is_named_at_the_end_and_nothing_is_delivered(
    house: House, repo: Path
) -> None:
    """A plan that was done in part is not taken for the whole."""
    when = house.model.when
    when(f"Do this step: {GREETING_GOAL}").say(GREETING)
    when(f"Do this step: {FAREWELL_GOAL}").say(RIGHT)
    whole = plan()
    whole["structure"].append({"path": "README.md", "purpose": "says what it is for"})
    when("").say(json.dumps(whole))

    with house.client() as client:
        view = follow_until(client, start(client, body(repo)), "end")

    assert view["outputs"]["structure"] == whole["structure"]
    assert view["outputs"]["missing"] == ["README.md"]
    assert view["outputs"]["done"] is False
    assert git(repo, "branch", "--list", "task/*") == ""


@pytest.mark.proves("002-15")
def test_change_outside_the_plan_stops_and_asks_before_it_is_committed(
    house: House, repo: Path
) -> None:
    """A person allows it; the items that were fine are not asked for again."""
    outside = RIGHT.replace(
        "```\n", "```\n", 1
    ) + "\nwords/secret.py\n```\nKEY = 1\n```\n"  # fmt: skip
    when = house.model.when
    when(f"Do this step: {GREETING_GOAL}").say(GREETING)
    when(f"Do this step: {FAREWELL_GOAL}").say(outside)
    when("").say(json.dumps(plan()))

    with house.client() as client:
        run = start(client, body(repo, interactive=True, agree="yes"))
        asked = question_at(client, run, "rounds[0]/decide")
        before = git(repo, "branch", "--list", "task/*")
        answer(client, run, "rounds[0]/decide", "allow")
        compared = question_at(client, run, "accept")
        answer(client, run, "accept", "do not deliver")
        view = follow_until(client, run, "end")

    assert "words/secret.py is not one of the files to change" in asked["show"][0]
    assert before == ""
    assert compared["show"]["outside"] == ["words/secret.py"]
    assert len(asked_for(house, f"Do this step: {GREETING_GOAL}")) == 1
    assert view["outputs"]["done"] is False
    uses = {node["path"]: node["use"] for node in view["graph"]["nodes"]}
    assert uses["rounds/work/farewell"] == "workflow/code-step"
    assert uses["repair"] == "workflow/debug-step"


@pytest.mark.proves("002-13")
def test_item_added_before_a_round_that_is_done_again_is_done_after_it(
    house: House, repo: Path
) -> None:
    """The item was found at the end of a round whose change a person then allowed."""
    when = house.model.when
    when(f"Do this step: {ADDED}").say("Done.\n\nwords/notes.py\n```\n# Notes.\n```\n")
    when(f"Do this step: {GREETING_GOAL}").say(GREETING)
    when(f"Do this step: {FAREWELL_GOAL}").say(RIGHT + "\nsecret.py\n```\nKEY = 1\n```\n")
    when("").say(json.dumps(plan()))

    with house.client() as client:
        run = start(client, body(repo, interactive=True, decide="allow", accept="deliver"))
        question_at(client, run, "planning[0]/agree")
        assert client.post(f"/api/runs/{run}/todo", json={"add": ADDED}).is_success
        answer(client, run, "planning[0]/agree", "yes")
        view = follow_until(client, run, "end")

    assert steps_of(view)["rounds[2]/work/added_1"]["status"] == "done"
    assert "words/notes.py" in git(
        repo, "diff", "--name-only", f"main..{view['outputs']['branch']}"
    )


@pytest.mark.extended
@pytest.mark.proves("002-16")
def test_repair_that_goes_in_circles_asks_a_person_whose_words_are_in_the_next_prompt(
    house: House, repo: Path
) -> None:
    """The same error in the same files is no progress."""
    again = "It is fine.\n\nwords/farewell.py\n```\n{}```\n"
    same = again.format('def part(name):\n    return "Bye! " + name + "."\n')
    when = house.model.when
    when("A person says: Use a comma").say(RIGHT)
    when("This command fails").say(same).say(WRONG).say(same)
    when(f"Do this step: {GREETING_GOAL}").say(GREETING)
    when(f"Do this step: {FAREWELL_GOAL}").say(WRONG)
    when("").say(json.dumps(plan()))

    with house.client() as client:
        run = start(client, body(repo, interactive=True, agree="yes"))
        asked = question_at(client, run, "repair/repairs[2]/guide")
        answer(client, run, "repair/repairs[2]/guide", "Use a comma and an exclamation mark.")
        view = follow_until(client, run, "end")

    assert "The same files fail with the same error" in asked["text"]
    assert view["outputs"]["done"] is True
    assert "A person says: Use a comma and an exclamation mark." in prompts(house)[-1]
