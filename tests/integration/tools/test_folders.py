"""The folder of a run: every call that sees it finds it as the call before left it."""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.application import retention as keeping
from pipecatapp.application.steps import changes
from pipecatapp.workflow import Engine, load_document
from tests.integration.tools.conftest import Opened
from tests.integration.tools.test_programs import eventually

BUILD = """
kind: workflow
id: build
about: Writes, runs and reads.
inputs: {word: text}
steps:
  - {id: write, use: file.write, with: {path: word.txt, text: "{{ inputs.word }}"}}
  - id: shout
    use: code.run
    with:
      code: |
        text = open("word.txt").read()
        open("loud.txt", "w").write(text.upper())
        print(len(text))
  - {id: loud, use: file.read, with: {path: loud.txt}}
outputs: {loud: "{{ loud.text }}", length: "{{ shout.stdout }}"}
"""
SPOIL = """
kind: workflow
id: spoil
about: A program whose time is over leaves half of its work.
steps:
  - {id: write, use: file.write, with: {path: a.txt, text: whole}}
  - id: spoil
    use: code.run
    timeout: 3s
    on_error: continue
    with: {code: "open('a.txt', 'w').write('half'); import time; time.sleep(60)"}
  - {id: read, use: file.read, with: {path: a.txt}}
outputs: {text: "{{ read.text }}"}
"""
BRANCHES = """
kind: workflow
id: branches
about: Two branches work on the same folder at the same time.
inputs: {names: list of text}
steps:
  - {id: base, use: file.write, with: {path: base.txt, text: base}}
  - id: each
    for: {each: "{{ inputs.names }}", parallel: 3}
    workspace: fork
    steps:
      - {id: write, use: file.write, with: {path: "{{ item }}.txt", text: "{{ loop.index }}."}}
      - {id: all, use: code.run, with: {language: sh, code: "ls"}}
  - {id: after, use: code.run, with: {language: sh, code: "ls; cat base.txt"}}
outputs: {after: "{{ after.stdout }}", seen: "{{ each.all | map(attribute='all') | map(attribute='stdout') }}"}
"""  # noqa: E501
TURNS = """
kind: workflow
id: turns
about: Two programs, each of which would find the other in the folder.
graph:
  - {id: one, use: code.run, with: {language: sh, code: "mkdir busy && sleep 0.3 && rmdir busy && echo 1 > one"}}
  - {id: two, use: code.run, with: {language: sh, code: "mkdir busy && sleep 0.3 && rmdir busy && echo 2 > two"}}
  - {id: both, use: code.run, needs: [one, two], with: {language: sh, code: "ls"}}
outputs: {ok: "{{ one.ok and two.ok }}", both: "{{ both.stdout }}"}
"""  # noqa: E501
SOURCE = """
kind: workflow
id: source
about: Begins with a project.
inputs: {repo: text}
workspace: {repo: "{{ inputs.repo }}", commit: first}
steps:
  - {id: a, use: file.read, with: {path: a.txt}}
outputs: {text: "{{ a.text }}"}
"""
AGAIN = """
kind: workflow
id: again
about: A person turns the first try down.
steps:
  - id: work
    retry: 1
    workspace: KIND
    check: {"it was turned down": "{{ work.sure.answer == 'yes' }}"}
    steps:
      - {id: write, use: file.write, with: {path: a.txt, mode: append, text: x}}
      - {id: sure, use: human.ask, with: {question: Sure?}}
  - {id: read, use: file.read, with: {path: a.txt}}
outputs: {text: "{{ read.text }}"}
"""


async def ended(engine: Engine, run: str, status: str = "done") -> dict[str, Any]:
    """The outputs of a run, or what it failed with."""
    result = await engine.wait(run)
    assert result.status == status, result
    return result.outputs if status == "done" else {"error": result.error}


def statuses(engine: Engine, run: str) -> dict[str, str]:
    """How each step came about: `cached` where it was taken over."""
    return {
        step.path: "cached" if "cached" in step.facts else step.status
        for step in engine.run(run).steps
    }


async def test_calls_of_a_run_share_one_folder(opened: Opened) -> None:
    """What a step writes the next one runs, and what a program leaves a later step reads."""
    async with opened(BUILD) as engine:
        run = await engine.start("build", {"word": "tea"})
        outputs = await ended(engine, run)
        facts = {step.path: step.facts["workspace"] for step in engine.run(run).steps}
        changed = await changes(engine, run, "shout")

    assert outputs == {"loud": "TEA", "length": "3\n"}
    assert facts["shout"]["before"] == facts["write"]["after"] != facts["shout"]["after"]
    assert facts["loud"]["after"] == facts["shout"]["after"]
    assert "+++ b/loud.txt" in changed
    assert "word.txt" not in changed


async def test_folders_of_two_runs_are_apart(opened: Opened) -> None:
    """A run must never find what another one left."""
    async with opened(BUILD) as engine:
        one, two = [await engine.start("build", {"word": word}) for word in ("tea", "milk")]

        assert (await ended(engine, one))["loud"] == "TEA"
        assert (await ended(engine, two))["loud"] == "MILK"


async def test_folder_has_one_writer_at_a_time(opened: Opened) -> None:
    """What one node has half done must never become the state after another."""
    async with opened(TURNS) as engine:
        run = await engine.start("turns", {})
        outputs = await ended(engine, run)
        facts = {step.path: step.facts["workspace"] for step in engine.run(run).steps}

    assert outputs == {"ok": True, "both": "one\ntwo\n"}
    assert {facts["one"]["before"], facts["two"]["before"]} & {
        facts["one"]["after"],
        facts["two"]["after"],
    }


async def test_what_a_failed_call_did_to_the_folder_is_wound_back(opened: Opened) -> None:
    """The next step works on files that somebody has finished."""
    async with opened(SPOIL) as engine:
        outputs = await ended(engine, await engine.start("spoil", {}))

    assert outputs == {"text": "whole"}


async def test_fork_takes_over_the_folder_and_reads_what_changed(opened: Opened) -> None:
    """An edit of one file must reach all that read it, and nothing else is done again."""
    edited = BUILD.replace("text.upper()", "text.title()")
    async with opened(BUILD) as engine:
        first = await engine.start("build", {"word": "tea"})
        await ended(engine, first)
        same = await engine.fork(first)
        changed = await engine.fork(
            first, plan=engine.plan(load_document(edited, file="edited.yaml"))
        )
        other = await engine.fork(first, inputs={"word": "milk"})

        assert await ended(engine, same) == {"loud": "TEA", "length": "3\n"}
        assert set(statuses(engine, same).values()) == {"cached"}
        assert await ended(engine, changed) == {"loud": "Tea", "length": "3\n"}
        assert statuses(engine, changed) == {"write": "cached", "shout": "done", "loud": "done"}
        assert await ended(engine, other) == {"loud": "MILK", "length": "4\n"}
        why = {step.path: step.why for step in engine.run(other).steps}
        assert why["loud"] == "changed: workspace"


async def test_run_again_from_a_node_begins_with_the_folder_before_it(opened: Opened) -> None:
    """Re-running from the middle must not start from an empty folder, nor from the end's."""
    text = BUILD.replace('open("loud.txt", "w")', 'open("loud.txt", "a")')
    async with opened(text) as engine:
        first = await engine.start("build", {"word": "tea"})
        await ended(engine, first)
        again = await engine.fork(first, at="shout")

        assert await ended(engine, again) == {"loud": "TEA", "length": "3\n"}
        assert statuses(engine, again) == {"write": "cached", "shout": "done", "loud": "cached"}
        third = await engine.fork(again, at="loud")
        assert await ended(engine, third) == {"loud": "TEA", "length": "3\n"}


async def test_branches_work_apart_and_are_merged(opened: Opened) -> None:
    """Parallel writers see their own folder; afterwards everything is in one."""
    async with opened(BRANCHES) as engine:
        run = await engine.start("branches", {"names": ["x", "y", "z"]})
        outputs = await ended(engine, run)

    assert outputs["after"] == "base.txt\nx.txt\ny.txt\nz.txt\nbase"
    assert outputs["seen"] == [f"base.txt\n{name}.txt\n" for name in "xyz"]


@pytest.mark.parametrize(("kind", "text"), [("fork", "x"), ("same", "xx")])
async def test_try_that_failed_leaves_nothing_in_a_folder_of_its_own(
    opened: Opened, kind: str, text: str
) -> None:
    """Where that is wanted a second try begins with the files that the first one began with."""
    async with opened(AGAIN.replace("KIND", kind)) as engine:
        run = await engine.start("again", {})
        for path, said in (("work/sure", "no"), ("work#2/sure", "yes")):
            await eventually(partial(open_at, engine, run, path))
            await engine.answer(run, path, said)
        outputs, seen = await ended(engine, run), statuses(engine, run)

    assert outputs == {"text": text}
    assert (seen["work"], seen["work#2"]) == ("failed", "done")


def open_at(engine: Engine, run: str, path: str) -> bool:
    return path in engine.questions(run)


async def test_conflict_of_branches_fails_their_node(opened: Opened) -> None:
    """Two answers for one place are for a person or the document to decide."""
    async with opened(BRANCHES) as engine:
        run = await engine.start("branches", {"names": ["x", "x"]})
        failed = await ended(engine, run, "failed")

    assert "x.txt" in failed["error"]
    assert failed["error"].startswith("each[")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose first commit has a tag, and that has changed since."""
    folder = tmp_path / "project"
    folder.mkdir()
    for number, words in enumerate((["tag", "first"], ["tag", "second"])):
        (folder / "a.txt").write_text(str(number), encoding="utf-8")
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], words):
            named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *command]
            subprocess.run(named, cwd=folder, check=True)
    return folder


async def test_run_begins_with_the_commit_that_its_document_names(
    opened: Opened, project: Path, tmp_path: Path
) -> None:
    """What runs on a project must not depend on what somebody has open in an editor."""
    (project / "a.txt").write_text("not committed", encoding="utf-8")
    async with opened(SOURCE) as engine:
        outputs = await ended(engine, await engine.start("source", {"repo": str(project)}))
        away = await engine.start("source", {"repo": str(tmp_path / "away")})
        relative = await engine.start("source", {"repo": "project"})

        assert outputs == {"text": "0"}
        assert "There is no repository" in (await ended(engine, away, "failed"))["error"]
        assert "absolute" in (await ended(engine, relative, "failed"))["error"]
        assert statuses(engine, away) == {"a": "failed"}


async def test_pruned_run_leaves_no_folder(opened: Opened, tmp_path: Path) -> None:
    """Retention is for the disk."""
    async with opened(BUILD) as engine:
        await ended(engine, await engine.start("build", {"word": "tea"}))
        await keeping.prune(engine, before="2999-01-01T00:00:00.000Z", keep=0)

    assert list((tmp_path / "workspaces").iterdir()) == []
