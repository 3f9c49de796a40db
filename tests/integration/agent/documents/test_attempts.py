"""A task that is tried, refined, tried again from the start, and delivered for review."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.agent.conftest import House
from tests.integration.agent.test_cli import Hearth, announce, command

TASK = """
id: task
inputs: {request: text, repo: text}
workspace: {repo: "{{ inputs.repo }}"}
steps:
  - {id: style, use: file.read, with: {path: style.txt}}
  - id: attempt
    until: "{{ test.exit_code == 0 }}"
    max: 3
    stuck_on: "{{ seen.tree }}"
    steps:
      - {id: clean, use: workspace.reset}
      - {id: guide, use: value, with: {value: "In the style of {{ style.text }}"}}
      - id: describe
        use: value
        with:
          value: "{{ inputs.request }}{{ '' if loop.first else ' (note: ' ~ prev.test.stderr ~ ')' }}"
      - {id: code, use: llm, with: {text: "{{ describe.value }} {{ guide.value }}"}}
      - id: write
        use: file.write
        with: {path: "try{{ loop.index }}.py", text: "{{ code.text }}"}
      - {id: seen, use: workspace.state}
      - {id: test, use: code.run, with: {code: "exec(open('try{{ loop.index }}.py').read())"}}
  - {id: commit, use: workspace.deliver, with: {about: "{{ inputs.request }}"}}
outputs: {branch: "{{ commit.branch }}", tries: "{{ attempt.count }}"}
"""  # noqa: E501


def git(folder: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a style guide."""
    (folder := tmp_path / "project").mkdir()
    (folder / "style.txt").write_text("tea", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def hearth(house: House, monkeypatch: pytest.MonkeyPatch) -> Hearth:
    """The command, with the running instance."""
    announce(house)
    return command(house, monkeypatch)


@pytest.mark.proves("003-12")
@pytest.mark.proves("003-26")
def test_second_attempt_begins_at_the_start_and_only_it_is_delivered(
    house: House, hearth: Hearth, project: Path, tmp_path: Path
) -> None:
    """A better description is worth more than a model that mends what it has spoilt."""
    house.model.when("(note: ").say("print('fine')")
    house.model.when("Add a try").say("raise SystemExit('no tea')")
    (file := tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")

    given = ("-i", "request=Add a try", "-i", f"repo={project}", "--json")
    run = json.loads(hearth("run", str(file), *given).stdout)
    with house.client() as client:
        view = client.get(f"/api/runs/{run['run']}").json()
        steps = {step["path"]: step for step in view["steps"]}
        one = client.get(f"/api/runs/{run['run']}/changes", params={"path": "attempt[1]/write"})
        none = client.get(f"/api/runs/{run['run']}/changes", params={"path": "attempt"})
    whole = hearth("runs", "changes", run["run"])

    assert run["outputs"] == {"branch": f"run/{run['run']}", "tries": 2}
    assert steps["attempt[1]/clean"]["output"]["changed"] is False
    assert steps["attempt[1]/describe"]["output"]["value"] == "Add a try (note: no tea\n)"
    assert steps["attempt[1]/guide"]["facts"]["cached"]["path"] == "attempt[0]/guide"
    assert git(project, "log", "--format=%s", f"main..run/{run['run']}") == "Add a try\n"
    assert git(project, "diff", "--name-only", "main", f"run/{run['run']}") == "try1.py\n"
    assert "+print('fine')" in one.text
    assert "+++ b/try1.py" in whole.stdout
    assert "try0.py" not in whole.stdout
    assert (none.status_code, none.json()["error"]["code"]) == (404, "step_not_found")


def test_loop_that_changes_no_file_any_more_is_stuck(
    house: House, hearth: Hearth, project: Path, tmp_path: Path
) -> None:
    """Other words around the same program are no progress."""
    house.model.when("Add a try").say("raise SystemExit('no tea')")
    text = TASK.replace("try{{ loop.index }}.py", "try.py")
    (file := tmp_path / "task.yaml").write_text(text, encoding="utf-8")

    ended = hearth("run", str(file), "-i", "request=Add a try", "-i", f"repo={project}")

    assert ended.exit_code == 1
    assert "attempt: it is stuck: visits 1 and 2 ended alike" in ended.stderr
    assert git(project, "branch", "--list", "run/*") == ""


def test_two_runs_are_seen_beside_each_other(house: House, hearth: Hearth, tmp_path: Path) -> None:
    """What a change of the document changed is seen step by step, not guessed."""
    text = """
id: pair
inputs: {word: text}
steps:
  - {id: same, use: value, with: {value: 1}}
  - {id: said, use: llm, with: {text: "{{ inputs.word }}"}}
  - {id: gone, use: value, with: {value: 2}}
outputs: {text: "{{ said.text }}"}
"""
    (file := tmp_path / "pair.yaml").write_text(text, encoding="utf-8")
    before = json.loads(hearth("run", str(file), "-i", "word=tea", "--json").stdout)["run"]
    file.write_text(text.replace("id: gone", "id: come"), encoding="utf-8")
    after = json.loads(hearth("run", str(file), "-i", "word=milk", "--json").stdout)["run"]

    found = json.loads(hearth("runs", "compare", before, after, "--json").stdout)
    shown = hearth("runs", "compare", before, after).stdout
    with house.client() as client:
        api = client.get(f"/api/runs/{before}/compare", params={"with": after}).json()
        wrong = client.get(f"/api/runs/{before}/compare", params={"with": "nope"})

    assert found == api
    assert (found["same"], found["inputs"]) == (1, {"word": ["tea", "milk"]})
    assert found["outputs"] == {"text": ["tea", "milk"]}
    assert {step["path"]: step["differs"] for step in found["steps"]} == {
        "said": ["input", "output"], "gone": ["only before"], "come": ["only after"],
    }  # fmt: skip
    assert "input word" in shown
    assert "1 steps are alike." in shown
    assert wrong.json()["error"]["code"] == "run_not_found"
