"""Programs and files in the hands of models and people: bounded, recorded, and taken back."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.types import ASGIApp

from hearth.openai_api.client import ModelClient
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.workflow import Engine, ModelFacts
from tests.integration.tools.conftest import Opened

Serve = Callable[[ASGIApp], str]
WRITER = """
kind: workflow
id: writer
about: A model works with files.
steps:
  - id: reply
    use: agent
    with:
      text: work
      tools: [file.read, file.write, file.list, file.delete]
outputs: {text: "{{ reply.answer }}"}
"""
FIELDS = """
kind: workflow
id: fields
about: Each part of a program's end is a value of its own.
steps:
  - id: work
    use: code.run
    with:
      code: |
        import sys
        print("out")
        print("err", file=sys.stderr)
        open("made.txt", "w").write("x")
        raise ValueError("no tea")
  - id: each
    use: value
    with:
      value:
        said: "{{ work.stdout }}|{{ work.exit_code }}"
        warned: "{{ 'err' in work.stderr }}"
        short: "{{ work.seconds < 60 }}"
        made: "{{ work.files[0].path }}"
        broke: "{{ work.error.type }}: {{ work.error.message }} at {{ work.error.line }}"
outputs: {each: "{{ each.value }}"}
"""
ENDLESS = """
kind: workflow
id: endless
about: Programs that crash, hang, read and serve, and something that goes on beside them.
graph:
  - {id: crash, use: code.run, with: {code: "import os; os.abort()"}}
  - {id: reads, use: code.run, with: {code: "print(input())"}}
  - {id: serves, use: code.run, with: {seconds: 10, code: CODE}}
  - {id: beside, use: value, with: {value: 1}}
outputs: {crash: "{{ crash.exit_code }}", reads: "{{ reads.error.type }}", serves: "{{ serves.stopped }}"}
"""  # noqa: E501
SERVER = (
    "import os, socket; s = socket.create_server(('127.0.0.1', 8099)); os.fork();"
    " os.execvp('sleep', ['sleep', 'SECONDS'])"
)
CYCLE = """
kind: workflow
id: cycle
about: Build, try, and ask whether there is more to do, on the same files.
inputs: {request: text}
steps:
  - id: round
    until: "{{ sure.answer == 'yes' }}"
    max: 3
    on_max: ask
    steps:
      - id: change
        use: file.write
        with: {path: done.txt, mode: append, text: "{{ inputs.request if loop.first else prev.sure.answer }};"}
      - {id: tried, use: code.run, with: {language: sh, code: "cat done.txt"}}
      - {id: sure, use: human.ask, with: {question: "Is this what you wanted?", show: "{{ tried.stdout }}"}}
outputs: {text: "{{ round.last.tried.stdout }}", rounds: "{{ round.count }}"}
"""  # noqa: E501
BACK = """
kind: workflow
id: back
about: What was deleted comes back.
steps:
  - {id: write, use: file.write, with: {path: src/a.txt, text: a}}
  - {id: read, use: file.read, with: {path: src/a.txt}}
  - {id: kept, use: workspace.state}
  - {id: file, use: file.delete, with: {path: src/a.txt}}
  - {id: folder, use: file.delete, with: {path: src}}
  - {id: gone, use: file.list}
  - {id: reset, use: workspace.reset, with: {to: "{{ kept.state }}"}}
  - {id: there, use: file.list}
outputs: {read: "{{ read.text }}", gone: "{{ gone.items }}", there: "{{ there.items }}"}
"""


class TakesTools(ModelFacts):
    """A model that may be offered tools."""

    def takes_tools(self, model: str) -> bool:
        return True


async def asked(engine: Engine, run: str, path: str) -> None:
    """Return once the run waits for an answer at `path`."""
    await eventually(lambda: path in engine.questions(run))


@pytest.mark.proves("000-05")
async def test_model_works_inside_the_workspace_and_nowhere_else(
    opened: Opened, serve: Serve, tmp_path: Path
) -> None:
    """What a model asks for outside is refused, it is told so, and the run shows it."""
    (outside := tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("file_write", {"path": "a/b.txt", "text": "inside"}),
        ("file_read", {"path": "a/b.txt"}),
        ("file_read", {"path": str(outside)}),
        ("file_write", {"path": "../outside.txt", "text": "mine"}),
        ("file_read", {"path": "link"}),
    ]
    model = ScriptedModel("m", key="k")
    model.when("work").call_tools(*calls).say("done")
    text = WRITER.replace(
        "steps:",
        f"""steps:
  - {{id: link, use: code.run, with: {{language: sh, code: "ln -s {outside} link"}}}}""",
    )
    async with ModelClient(f"{serve(model.app)}/v1", "k") as client:
        services = {ModelClient: client, ModelFacts: TakesTools()}
        async with opened(text, services=services) as engine:
            run = await engine.start("writer", {})
            result = await engine.wait(run)
            steps = {step.path: step for step in engine.run(run).steps}
            events = [
                (event.type, event.path) for event in engine.ledger.read.all_events(run, after=0)
            ]

    assert result.outputs == {"text": "done"}
    turn = [steps[f"reply/turn[1]/call[{index}]"] for index in range(5)]
    assert [step.status for step in turn] == ["done", "done", "failed", "failed", "failed"]
    assert turn[1].output["text"] == "inside"
    assert outside.read_text() == "secret"
    for step in turn[2:]:
        assert "leads out of the workspace" in str(step.error)
        assert ("node.failed", step.path) in events
    told = [m["content"] for m in model.requests[-1].body["messages"] if m["role"] == "tool"]
    assert [content.startswith("Error: ") for content in told] == [False, False, True, True, True]


@pytest.mark.proves("000-02")
async def test_each_part_of_a_programs_end_is_a_value_for_later_steps(opened: Opened) -> None:
    """A step that mends a program reads its error, not a page of text."""
    async with opened(FIELDS) as engine:
        result = await engine.wait(await engine.start("fields", {}))

    assert result.outputs["each"] == {
        "said": "out\n|1", "warned": True, "short": True, "made": "made.txt",
        "broke": "ValueError: no tea at 5",
    }  # fmt: skip


@pytest.mark.proves("000-13")
async def test_programs_that_never_end_hold_nothing_up_and_leave_nothing(opened: Opened) -> None:
    """The engine answers while they run, their limit decides, and no process of theirs is left."""
    seconds = str(10_000_000 + os.getpid())
    text = ENDLESS.replace("CODE", f'"{SERVER.replace("SECONDS", seconds)}"')
    async with opened(text) as engine:
        run = await engine.start("endless", {})
        await eventually(lambda: sleeping(seconds) == 2)
        beside = {step.path: step.status for step in engine.run(run).steps}["beside"]
        result = await engine.wait(run)

    assert beside == "done"
    assert result.outputs == {"crash": 134, "reads": "EOFError", "serves": "time"}
    await eventually(lambda: sleeping(seconds) == 0)


async def test_cancelled_run_ends_its_programs(opened: Opened) -> None:
    """Stop means stop, for what the program has started, too."""
    seconds = str(20_000_000 + os.getpid())
    program = SERVER.replace("SECONDS", seconds)
    text = f'id: held\nsteps: [{{id: a, use: code.run, with: {{code: "{program}"}}}}]\n'
    async with opened(text) as engine:
        run = await engine.start("held", {})
        await eventually(lambda: sleeping(seconds) == 2)
        await engine.cancel(run)
        left = sleeping(seconds)

        assert engine.run(run).status == "cancelled"
    assert left == 0


def sleeping(seconds: str) -> int:
    """How many processes sleep for so long."""
    processes = (one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"]))
    return sum(words[-1:] == [seconds] for words in processes)


async def eventually(condition: Callable[[], bool]) -> None:
    """Return once it is true."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("It never was.")


@pytest.mark.proves("000-20")
async def test_yes_or_a_further_wish_goes_round_on_the_same_files(opened: Opened) -> None:
    """Each wish adds to what is there, until a person is content or the stated maximum is met."""
    async with opened(CYCLE) as engine:
        run = await engine.start("cycle", {"request": "base"})
        for index, said in enumerate(("add x", "add y", "add z")):
            await asked(engine, run, f"round[{index}]/sure")
            await engine.answer(run, f"round[{index}]/sure", said)
        await asked(engine, run, "round[3]/max")
        await engine.answer(run, "round[3]/max", 1)
        await asked(engine, run, "round[3]/sure")
        await engine.answer(run, "round[3]/sure", "yes")
        result = await engine.wait(run)

    assert result.outputs == {"text": "base;add x;add y;add z;", "rounds": 4}


@pytest.mark.proves("001-24")
async def test_files_and_folders_are_written_read_deleted_and_brought_back(opened: Opened) -> None:
    """A model that tidies up too much has taken nothing away for good."""
    async with opened(BACK) as engine:
        result = await engine.wait(await engine.start("back", {}))

    assert result.outputs["read"] == "a"
    assert result.outputs["gone"] == []
    assert [one["path"] for one in result.outputs["there"]] == ["src", "src/a.txt"]
