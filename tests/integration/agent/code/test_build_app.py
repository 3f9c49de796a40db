"""`hearth code build`: a real sandbox, a real repository, a scripted model."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from hearth.openai_api.chat import ChatRequest
from tests.integration.agent.code.conftest import follow_until, git, prompts, repository
from tests.integration.agent.conftest import House, Json
from tests.integration.agent.test_cli import Hearth
from tests.integration.tools.code.test_install import wheel

EXTENDED_INPUTS = [
    "pipecatapp/workflows/build-app.yaml", "pipecatapp/tools/code/**",
    "pipecatapp/tools/check/**", "pipecatapp/tools/project/**", "pipecatapp/sandbox/**",
]  # fmt: skip

PLAN: Json = {
    "summary": "Greets a person.",
    "files": [{"path": "main.py", "purpose": "Reads a name and greets."}],
    "packages": [],
    "command": "python3 main.py",
    "stdin": "Ada",
    "keeps_running": False,
}
BROKEN = """
main.py
```
name = input()
print("Hello " + name_)
```
"""
REPAIR = """The name was misspelt.

main.py
```
<<<<<<< SEARCH
print("Hello " + name_)
=======
print("Hello " + name)
>>>>>>> REPLACE
```
"""
NEEDS = """It needs the package lamp.

main.py
```
import lamp
print("Hello " + lamp.LIGHT)
```
"""
OTHER_PACKAGE = """There is no such package, but this one.

requirements.txt
```
lamp
```
"""
README = "# Greeter\n\nStart it with `python3 main.py`.\n"
LOUD = """It greets in capitals now.

main.py
```
<<<<<<< SEARCH
print("Hello " + name)
=======
print("HELLO " + name)
>>>>>>> REPLACE
```
"""


def script(house: House, plan: Json = PLAN, program: str = BROKEN) -> None:
    """Let the model plan, write a program, and write its README."""
    house.model.when(asked_to("You plan")).say(json.dumps(plan))
    house.model.when(asked_to("You write the program")).say(program)
    house.model.when(asked_to("Write the README")).say(README)


def asked_to(text: str) -> Callable[[ChatRequest], bool]:
    return lambda request: text in str(request.messages[0])


def answer(client: httpx2.Client, run: str, node: str, value: str) -> Json:
    """Answer the question of a node, and return the question."""
    view = follow_until(client, run, "node.waiting", f"{node}")
    (step,) = [one for one in view["steps"] if one["status"] == "waiting"]
    sent = {"path": step["path"], "value": value}
    assert client.post(f"/api/runs/{run}/answer", json=sent).is_success
    question: Json = step["facts"]["question"]
    return question


@pytest.mark.proves("000-11", "000-16", "000-22", "000-34", "002-07", "002-10")
def test_program_is_planned_written_repaired_and_delivered_with_a_readme(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """A new folder is a repository with the program at the end; a script is asked nothing."""
    script(empty_house)
    empty_house.model.when("NameError").say(REPAIR)
    folder = tmp_path / "greeter"

    done = hearth("code", "build", "Greet a person.", "--into", str(folder))

    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[:3] == ["Greets a person.", "Files: main.py", "Command: python3 main.py"]
    assert lines[3].startswith("Attempt 1: wrote main.py; it fails with NameError: name 'name_'")
    assert lines[4] == "Attempt 2: wrote main.py; the program runs."
    assert lines[5].startswith("It is on the branch run/")
    assert git(folder, "show", "main:main.py") == 'name = input()\nprint("Hello " + name)\n'
    assert git(folder, "show", "main:README.md") == README
    assert (folder / "main.py").exists()
    assert git(folder, "log", "-1", "--format=%s") == "Greets a person.\n"
    asked_last = [str(each.body["messages"][0]) for each in empty_house.model.requests][-1]
    assert "Write the README" in asked_last
    repair = prompts(empty_house)[2]
    assert "The program fails with NameError: name 'name_' is not defined" in repair
    with empty_house.client() as client:
        (run,) = client.get("/api/runs").json()["runs"]
        steps = client.get(f"/api/runs/{run['id']}").json()["steps"]
    started = [step["started"] for step in steps if step["started"]]
    assert len(started) > 20
    assert started == sorted(started)


@pytest.mark.proves("000-08")
def test_refused_answer_is_asked_for_again(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """Prose without a file, and a path that leads out, change nothing."""
    outside = BROKEN.replace("main.py", "../main.py")
    empty_house.model.when("leads out of the workspace").say(BROKEN.replace("name_)", "name)"))
    empty_house.model.when("does not contain an edit").say(outside)
    script(empty_house, program="I would write main.py.")

    done = hearth("code", "build", "Greet a person.", "--into", str(tmp_path / "greeter"))

    assert done.exit_code == 0, done.output
    assert (
        "Attempt 1: the answer is refused: The answer does not contain an edit of a file."
        in done.output
    )
    assert "Attempt 2: the answer is refused: '../main.py' leads out" in done.output
    assert "Attempt 3: wrote main.py; the program runs." in done.output
    assert not (tmp_path / "main.py").exists()


@pytest.mark.extended
def test_program_that_never_runs_is_not_delivered(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """The same error twice ends the attempts; a script is not asked for guidance."""
    script(empty_house)
    empty_house.model.when("NameError").say(REPAIR.replace("+ name)", "+ nme)")).say("No idea.")

    done = hearth("code", "build", "Greet.", "--into", str(tmp_path / "greeter"), "--json")

    assert done.exit_code == 1, done.output
    outputs = json.loads(done.output)["outputs"]
    assert (outputs["runs"], outputs["branch"]) == (False, None)
    assert git(tmp_path / "greeter", "branch", "--list", "run/*") == ""
    assert not any("README" in str(each.body["messages"][0]) for each in empty_house.model.requests)


@pytest.mark.extended
@pytest.mark.proves("002-16")
def test_program_that_is_again_as_it_was_stops_the_attempts_and_a_person_is_asked(
    empty_house: House, tmp_path: Path
) -> None:
    """A, B, A: the second change takes the first one back."""
    other = REPAIR.replace("+ name)", "+ nme)")
    lines = 'print("Hello " + name_)', 'print("Hello " + nme)'
    back = f"main.py\n```\n<<<<<<< SEARCH\n{lines[1]}\n=======\n{lines[0]}\n>>>>>>> REPLACE\n```\n"
    empty_house.model.when("name 'name_' is not").say(other).say(REPAIR)
    empty_house.model.when("name 'nme' is not").say(back)
    script(empty_house)
    body = {"workflow": "build-app", "inputs": {"text": "Greet."}}

    with empty_house.running(), empty_house.client() as client:
        run = client.post("/api/runs", json=body | {"interactive": True}).json()["run"]
        answer(client, run, "planning[0]/agree", "yes")
        stuck = answer(client, run, "features[0]/guide", "stop")
        follow_until(client, run, "end")

    assert "does not run after 3 attempts" in stuck["text"]


@pytest.mark.extended
@pytest.mark.proves("000-12")
def test_server_that_still_runs_is_a_success(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """A server does not end by itself."""
    plan = PLAN | {"keeps_running": True}
    script(empty_house, plan, "\nmain.py\n```\nimport time\ntime.sleep(60)\n```\n")

    done = hearth("code", "build", "Serve.", "--into", str(tmp_path / "server"))

    assert done.exit_code == 0, done.output
    assert "Attempt 1: wrote main.py; the program runs." in done.output


@pytest.mark.extended
@pytest.mark.proves("000-22")
def test_person_changes_the_plan_gives_guidance_and_adds_a_feature(
    empty_house: House, tmp_path: Path
) -> None:
    """Each word of a person is in the prompt that follows; the repository keeps its README."""
    repo = repository(tmp_path / "mine", {"README.md": "Mine."})
    empty_house.model.when("In one file, please.").say(json.dumps(PLAN | {"summary": "Better."}))
    empty_house.model.when("asks for this now: Greet loudly.").say(LOUD)
    empty_house.model.when("asks for this now: Spell it name.").say(REPAIR)
    empty_house.model.when("NameError").say("No idea.")
    script(empty_house)
    body = {"workflow": "build-app", "inputs": {"text": "Greet.", "repo": str(repo)}}

    with empty_house.running(), empty_house.client() as client:
        run = client.post("/api/runs", json=body | {"interactive": True}).json()["run"]
        plan = answer(client, run, "planning[0]/agree", "In one file, please.")
        better = answer(client, run, "planning[1]/agree", "yes")
        stuck = answer(client, run, "features[0]/guide", "Spell it name.")
        shown = answer(client, run, "features[1]/verdict", "Greet loudly.")
        louder = answer(client, run, "features[2]/verdict", "yes")
        view = follow_until(client, run, "end")

    assert plan["show"] == PLAN
    assert better["show"]["summary"] == "Better."
    assert "NameError" in stuck["show"]
    assert shown["show"]["output"] == "Hello Ada\n"
    assert louder["show"]["output"] == "HELLO Ada\n"
    branch = view["outputs"]["branch"]
    assert git(repo, "diff", "--name-only", f"main..{branch}") == "main.py\n"
    assert 'print("HELLO " + name)' in git(repo, "show", f"{branch}:main.py")
    assert git(repo, "show", f"{branch}:README.md") == "Mine."
    assert "These files exist: README.md" in prompts(empty_house)[0]


@pytest.mark.extended
@pytest.mark.proves("000-10")
def test_package_that_does_not_exist_is_an_error_to_repair(
    hearth: Hearth, empty_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of pip is in the next prompt, and the model changes requirements.txt."""
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "lamp", "2.1", "LIGHT = 'on'")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    script(empty_house, PLAN | {"packages": ["lampp"]}, NEEDS)
    empty_house.model.when("satisfies the requirement lampp").say(OTHER_PACKAGE)
    folder = tmp_path / "greeter"

    done = hearth("code", "build", "Greet a person.", "--into", str(folder))

    assert done.exit_code == 0, done.output
    first, second = [line for line in done.output.splitlines() if line.startswith("Attempt")]
    assert first.startswith("Attempt 1: wrote main.py; its packages cannot be installed: ")
    assert second == "Attempt 2: wrote requirements.txt; the program runs."
    (repair,) = [text for text in prompts(empty_house) if "the requirement lampp" in text]
    assert "The packages that requirements.txt names cannot be installed." in repair
    assert "```\nlampp\n" in repair
    assert git(folder, "show", "main:requirements.txt") == "lamp\n"


IN_LANGUAGES: dict[str, tuple[str, str, str, str]] = {
    "main.py": ("print('Hello'\n", "print('Hello')\n", "python3 main.py", "1"),
    "main.js": ("console.log('Hello';\n", "console.log('Hello');\n", "node main.js", "1"),
    "main.sh": ("if true; then\n  echo Hello\n", "echo Hello\n", "bash main.sh", "3"),
    "main.sql": (
        "-- Greets.\nSELEC 'Hello';\n", "SELECT 'Hello';\n",
        'sqlite3 -bail :memory: ".read main.sql"', "2",
    ),
}  # fmt: skip
"""By file: the program with a syntax error and without, the command line that fits, the line."""


@pytest.mark.extended
@pytest.mark.proves("002-08", "002-34")
@pytest.mark.parametrize("name", IN_LANGUAGES)
def test_program_of_any_language_is_checked_started_and_explained(
    hearth: Hearth, empty_house: House, tmp_path: Path, name: str
) -> None:
    """The plan leaves out the command, the README how it is started, and the code a bracket."""
    broken, good, command, line = IN_LANGUAGES[name]
    plan = PLAN | {"files": [{"path": name, "purpose": "Greets."}], "command": "", "stdin": ""}
    text = f"So:\n\n{name}\n```\n{{}}```\n"
    script(empty_house, plan, text.format(broken))
    empty_house.model.when("does not parse").say(text.format(good))
    empty_house.model.when(asked_to("Write the README")).say("# Greeter\n")
    folder = tmp_path / "greeter"

    done = hearth("code", "build", "Greet.", "--into", str(folder))

    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert f"Command: {command}" in lines
    assert lines[-2].endswith(f"wrote {name}; the program runs.")
    if name != "main.py":  # Such an answer is refused before it is a file.
        assert f"Attempt 1: wrote {name}; {name} does not parse: " in done.output
        assert any(f"{name} does not parse, line {line}: " in one for one in prompts(empty_house))
    assert git(folder, "show", f"main:{name}") == good
    readme = git(folder, "show", "main:README.md")
    assert readme.startswith("# Greeter\n")
    assert command in readme
    committed = git(folder, "ls-tree", "-r", "--name-only", "main").split()
    ignored = {"main.py": "__pycache__/\n.venv/\n", "main.js": "node_modules/\n"}.get(name)
    assert set(committed) == {name, "README.md", *([".gitignore"] if ignored else [])}
    assert ignored is None or git(folder, "show", "main:.gitignore") == ignored


@pytest.mark.proves("002-34")
def test_plan_that_starts_none_of_its_files_is_made_again(
    hearth: Hearth, empty_house: House, tmp_path: Path
) -> None:
    """The planner is told why before a person is asked."""
    empty_house.model.when("It cannot be used.").say(json.dumps(PLAN))
    script(empty_house, PLAN | {"command": "python3 app.py"}, BROKEN.replace("name_)", "name)"))

    done = hearth("code", "build", "Greet.", "--into", str(tmp_path / "greeter"))

    assert done.exit_code == 0, done.output
    second = prompts(empty_house)[1]
    assert "The command 'python3 app.py' starts none of the planned files (main.py)" in second
