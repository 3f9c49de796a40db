"""The shipped tools in real runs: ledger on disk, model on a socket, programs in the sandbox."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from hearth.openai_api.client import ModelClient
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.sandbox import Sandbox
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Engine, Ledger, NotAsked, load_document

Serve = Callable[[ASGIApp], str]
PROGRAM = """
kind: workflow
id: program
about: A model gives a number, a program squares it, a model says whether that will do.
steps:
  - id: limit
    use: value
    with: {value: 10}
  - id: number
    use: llm.json
    with:
      messages: [{role: user, content: Give me a number.}]
      returns: {number: integer}
  - id: square
    use: code.run
    with:
      code: "import sys; print(int(sys.stdin.read()) ** 2)"
      stdin: "{{ number.value.number | string }}"
  - id: asked
    use: human.ask
    with: {question: "Is it right?", choices: ["yes", "no"], show: "{{ square.stdout }}", by: llm}
  - id: told
    use: human.note
    with: {text: "It was {{ square.stdout }}"}
outputs:
  limit: "{{ limit.value }}"
  square: "{{ square.stdout }}"
  attempts: "{{ number.attempts }}"
  answer: "{{ asked.answer }}"
  by: "{{ asked.by }}"
"""
PATIENT = """
kind: workflow
id: patient
about: Waits, then asks.
steps:
  - {id: pause, use: wait, with: {seconds: 0.8}}
  - {id: asked, use: human.ask, with: {question: Go on?, choices: ["yes", "no"]}}
outputs: {answer: "{{ asked.answer }}", by: "{{ asked.by }}"}
"""


@asynccontextmanager
async def opened(folder: Path, client: ModelClient | None = None) -> AsyncIterator[Engine]:
    """The engine as pipecatapp puts it together, without its web server."""
    sandbox, ledger = Sandbox(), Ledger(folder / "ledger.db")
    services: dict[Any, object] = {
        Sandbox: sandbox,
        Packages: Packages(folder / "packages", sandbox),
        ModelClient: client,
    }
    documents = [load_document(text, file="test.yaml") for text in (PROGRAM, PATIENT)]
    try:
        async with Engine(
            ledger, tools=TOOLS.values(), workflows=documents, prompts=(), services=services,
            roles={"default": "auto"},
        ) as engine:  # fmt: skip
            yield engine
    finally:
        ledger.close()


async def waits(engine: Engine, run: str) -> None:
    """Until the run waits for a person."""
    while not engine.questions(run):  # noqa: ASYNC110 (nothing tells of it but the engine)
        await asyncio.sleep(0.02)


@pytest.mark.proves("001-23")
async def test_model_program_and_question_work_together_in_a_run(
    serve: Serve, tmp_path: Path
) -> None:
    """Every step is in the ledger, the inner ones too; a model that answers is marked as one."""
    model = ScriptedModel("small", key="k")
    model.when("That is wrong").say('{"number": 12}')
    model.when("Is it right?").say('{"answer": "yes"}')
    model.when("Give me a number").say("twelve")

    async with (
        ModelClient(f"{serve(model.app)}/v1", "k") as client,
        opened(tmp_path, client) as engine,
    ):
        run = await engine.start("program", {})
        ended = await engine.wait(run)
        steps = {step.path: step.status for step in engine.run(run).steps}

    assert ended.status == "done", ended
    assert ended.outputs == {
        "limit": 10, "square": "144\n", "attempts": 2, "answer": "yes", "by": "model auto",
    }  # fmt: skip
    inner = {"number/ask[1]", "number/ask[2]", "asked/model", "asked/model/ask[1]"}
    assert inner <= steps.keys()
    assert set(steps.values()) == {"done"}


async def test_wait_and_question_survive_the_end_of_the_service(tmp_path: Path) -> None:
    """A wait goes on where it was, a question stays open, and the answer has its author."""
    async with opened(tmp_path) as engine:
        run = await engine.start("patient", {})
        async for event in engine.follow(run):
            if (event.type, event.path) == ("node.done", "pause/begin"):
                break
    async with opened(tmp_path) as engine:
        assert await engine.resume_unfinished() == [run]
        await waits(engine, run)
    async with opened(tmp_path) as engine:
        assert await engine.resume_unfinished() == [run]
        await waits(engine, run)
        await engine.answer(run, "asked", "yes", by="ada")
        ended = await engine.wait(run)
        (begin,) = [s for s in engine.run(run).steps if s.path == "pause/begin"]

    assert (ended.status, ended.outputs) == ("done", {"answer": "yes", "by": "ada"})
    assert begin.attempt == 1


async def test_answer_comes_while_the_run_is_being_resumed(tmp_path: Path) -> None:
    """Whoever sees an open question answers it; that the service has just started is not his
    affair.
    """
    async with opened(tmp_path) as engine:
        run = await engine.start("patient", {})
        async for event in engine.follow(run):
            if event.type == "node.waiting":
                break
    async with opened(tmp_path) as engine:
        await engine.resume_unfinished()
        await engine.answer(run, "asked", "yes", by="ada")
        with pytest.raises(NotAsked):
            await engine.answer(run, "asked", "no", by="bob")
        ended = await engine.wait(run)

    assert ended.outputs == {"answer": "yes", "by": "ada"}


async def test_tool_without_its_service_fails_the_node_with_its_name(tmp_path: Path) -> None:
    """Whoever puts the engine together and forgets a part must be told which."""
    ledger = Ledger(tmp_path / "ledger.db")
    text = "kind: workflow\nid: bare\nabout: x\nsteps: [{id: a, use: code.run, with: {code: x}}]\n"
    documents = [load_document(text, file="test.yaml")]
    async with Engine(
        ledger, tools=TOOLS.values(), workflows=documents, prompts=(), services={}, roles={}
    ) as engine:
        ended = await engine.wait(await engine.start("bare", {}))
    ledger.close()

    assert ended.status == "failed"
    assert "Sandbox" in str(ended.error)
