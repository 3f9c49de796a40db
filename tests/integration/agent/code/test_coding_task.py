"""`hearth code task`: a real repository and sandbox, a scripted model."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.integration.agent.code.conftest import follow_until, git, prompts, repository
from tests.integration.agent.code.test_fix_bug import with_experts
from tests.integration.agent.conftest import House, Json, ScriptedGateway
from tests.integration.agent.test_cli import Hearth

EXTENDED_INPUTS = [
    "pipecatapp/workflows/coding-task.yaml", "pipecatapp/workflows/coding-plan.yaml",
    "pipecatapp/tools/plan/**", "pipecatapp/tools/contexts/**", "pipecatapp/tools/tasks/**",
]  # fmt: skip

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


@pytest.mark.proves(
    "003-07", "003-20", "003-21", "003-23", "003-24", "003-25", "003-26", "003-27", "003-32",
    "003-35",
)  # fmt: skip
def test_second_attempt_starts_from_the_base_with_the_note_and_the_commit_holds_it_alone(
    house: House, repo: Path
) -> None:
    """The first attempt fails its test; only what the note is about is done again."""
    script(house.model)

    view = run_of(house, repo)

    assert view["status"] == "done", view["error"]
    steps, outputs = steps_of(view), view["outputs"]
    assert (outputs["done"], outputs["attempts"]) == (True, 2)
    assert [step["id"] for step in steps["planning[0]/expanded"]["output"]["steps"]] == [
        "greeting", "farewell",
    ]  # fmt: skip
    paths = list(steps)
    in_order = ["branch", "attempts[0]/work/greeting", "attempts[0]/work/farewell"]
    assert [path for path in paths if path in in_order] == in_order
    assert steps["branch"]["output"]["commit"] == git(repo, "rev-parse", "main").strip()
    assert [steps[f"attempts[{number}]/verify"]["output"]["ok"] for number in (0, 1)] == [
        False, True,
    ]  # fmt: skip
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


@pytest.mark.proves("003-33", "003-34", "003-40")
def test_review_of_another_role_that_is_not_good_makes_another_attempt(
    empty_house: House, repo: Path
) -> None:
    """The test succeeds in both attempts; the second review is good, so nothing more is refined."""
    when = empty_house.model.when
    with_experts(empty_house, "small", "reviewer")
    when("Note from an earlier attempt").say(RIGHT)
    when("What went wrong: The review says: No docstring.").say(json.dumps(ADVICE))
    when("The change:").say(json.dumps({"good": False, "note": "No docstring."})).say(
        json.dumps(GOOD)
    )
    when(f"Do this step: {FAREWELL_GOAL}").say(RIGHT)
    script(empty_house.model)

    with empty_house.running():
        view = run_of(empty_house, repo)

    steps, outputs = steps_of(view), view["outputs"]
    assert (outputs["done"], outputs["attempts"]) == (True, 2), view["error"]
    assert all(steps[f"attempts[{number}]/verify"]["output"]["ok"] for number in (0, 1))
    assert NOTE in asked_for(empty_house, f"Do this step: {FAREWELL_GOAL}")[1]
    assert steps["attempts[1]/advice"]["status"] == "skipped"
    assert steps["commit"]["status"] == "done"
    models = {
        request.body["model"]
        for request in empty_house.model.requests
        if "The change:" in str(request.body["messages"][-1]["content"])
    }
    assert models == {"reviewer"}


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


@pytest.mark.extended
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


STYLE = "Each function has a docstring with the word person.\n"
WISH: Json = {
    "contexts": [
        {"id": "style", "kind": "file", "subject": "Rules for greet(name)",
         "files": ["STYLE.md", "none.md"], "helps": ["farewell"]},
        {"id": "lost", "kind": "file", "subject": "Rules", "files": ["none.md"], "helps": []},
    ]
}  # fmt: skip
MORE: Json = {
    "contexts": [
        {"id": "check", "kind": "file", "subject": "The check", "files": ["check.py"],
         "helps": ["farewell"]},
    ]
}  # fmt: skip


def started(client: httpx2.Client, repo: Path) -> str:
    """A run that asks a person about further contexts."""
    inputs = {"text": TEXT, "repo": str(repo), "test": TEST, "contexts": "ask"}
    body = {"workflow": "coding-task", "inputs": inputs, "interactive": True}
    return str(client.post("/api/runs", json=body).json()["run"])


def accepted(client: httpx2.Client, run: str, path: str) -> Json:
    """Answer yes to a question, and return what it shows."""
    steps = steps_of(follow_until(client, run, "node.waiting", path))
    answer = client.post(f"/api/runs/{run}/answer", json={"path": path, "value": "yes"})
    assert answer.is_success, answer.text
    shown: Json = steps[path]["facts"]["question"]["show"]
    return shown


@pytest.mark.extended
@pytest.mark.proves("003-37")
def test_contexts_that_a_model_names_are_shown_as_a_layer_and_read_before_the_steps(
    house: House, tmp_path: Path
) -> None:
    """The second attempt gets another one, after what the first one had read and given."""
    repo = repository(
        tmp_path / "words", {"words/__init__.py": "", "check.py": CHECK, "STYLE.md": STYLE}
    )
    house.model.when("contexts and steps gave").say(json.dumps(MORE))
    house.model.when("The plan: ").say(json.dumps(WISH))
    script(house.model)

    with house.client() as client:
        run = started(client, repo)
        shown = [accepted(client, run, f"attempts[{number}]/accept") for number in (0, 1)]
        view = follow_until(client, run, "end")

    assert view["outputs"]["done"] is True
    [style] = shown[0]["contexts"]
    assert [(one["step"], one["reason"]) for one in style["steps"]] == [
        ("greeting", "Its goal has the words: greet, name."),
        ("farewell", "The model names it."),
    ]
    assert json.loads(shown[0]["layer"])["add"][0]["node"]["steps"][0]["id"] == "style"
    assert json.loads(shown[1]["layer"])["add"] == [
        {"in": "contexts", "node": {
            "id": "check", "about": "The check", "on_error": "continue", "use": "code.context",
            "with": {"budget": 1500, "files": ["check.py"]},
        }}
    ]  # fmt: skip
    ignored = steps_of(view)["attempts[0]/proposal"]["output"]["ignored"]
    assert ignored == ["lost: none of its files exists."]
    [greeting] = asked_for(house, f"Do this step: {GREETING_GOAL}")
    first, second = asked_for(house, f"Do this step: {FAREWELL_GOAL}")
    assert STYLE.strip() in greeting
    assert STYLE.strip() in first
    assert "from words.farewell import part" not in first
    assert "from words.farewell import part" in second
    assert STYLE.strip() in asked_for(house, "contexts and steps gave")[0]
    nodes = {node["path"]: node for node in view["graph"]["nodes"]}
    assert nodes["attempts/work/contexts/style"]["use"] == "code.context"


def similar_failure(path: str, symbol: str, old: str, new: str) -> Json:
    """A stored fix of a division by zero."""
    return {
        "signature": f"ZeroDivisionError: division by zero [{symbol}]", "language": "Python",
        "pattern": "ZeroDivisionError: division by zero", "at": "2026-01-01T00:00:00Z",
        "edit": [{"path": path, "symbol": symbol, "lines": [f"-    {old}", f"+    {new}"]}],
        "asked": 1, "applied": 1, "green": 1,
    }  # fmt: skip


@pytest.mark.extended
@pytest.mark.proves("003-38")
def test_similar_failures_become_one_context_that_a_person_accepts(
    house: House, repo: Path
) -> None:
    """Two fixes of the same error are one context; a single fix of another error is none."""
    stored = [
        similar_failure("a.py", "mean", "return s / n", "return s / n if n else 0"),
        similar_failure("b.py", "rate", "return a / b", "return a / b if b else 0"),
        similar_failure("c.py", "only", "x", "y")
        | {"signature": "KeyError: 'x' [only]", "pattern": "KeyError: 'x'"},
    ]
    house.model.when("The plan: ").say(json.dumps({"contexts": []}))
    script(house.model)

    with house.client() as client:
        sent = client.post("/api/fixes/import", json={"format": 1, "fixes": stored})
        assert sent.is_success, sent.text
        run = started(client, repo)
        [context] = accepted(client, run, "attempts[0]/accept")["contexts"]
        view = follow_until(client, run, "end")

    about = "2 failures with ZeroDivisionError: division by zero in Python"
    assert context["about"] == about
    assert "mean in a.py, rate in b.py" in context["text"]
    assert "+    return s / n if n else 0" in context["text"]
    for prompt in asked_for(house, "Do this step"):
        assert f"{about}: " in prompt
        assert "+    return a / b if b else 0" in prompt
        assert "KeyError" not in prompt
    assert view["outputs"]["done"] is True


@pytest.mark.extended
@pytest.mark.proves("003-44")
def test_documentation_that_belongs_to_the_task_is_in_the_prompts_of_planner_and_coder(
    house: House, tmp_path: Path
) -> None:
    """A rule of the project is of no use to a model that does not read it."""
    rules = "# Rules\n\n## Greeting\n\nIt ends with a mark.\n\n## Boats\n\nA boat is blue.\n"
    files = {"words/__init__.py": "", "check.py": CHECK, "docs/style.md": rules}
    script(house.model)

    run_of(house, repository(tmp_path / "documented", files))

    for asked in ("Name the steps", f"Do this step: {GREETING_GOAL}"):
        prompt = asked_for(house, asked)[0]
        assert "docs/style.md:\n## Greeting\n\nIt ends with a mark." in prompt
        assert "A boat is blue." not in prompt
