"""A call that may have taken effect when its process died: a person says what became of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.workflow import Context, Effect, Engine, Question, load_document, tool
from pipecatapp.workflow.tool import EFFECTS
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates, Text

DOCUMENT = """
id: sends
steps:
  - {id: sent, use: gate.send, with: {name: mail}}
  - {id: last, use: text.upper, with: {text: "{{ sent.text }}"}}
outputs: {text: "{{ last.text }}"}
"""


async def cut_off(open_engine: OpenEngine) -> tuple[Engine, str, Gates]:
    """A run whose process ends while its call is under way, and the engine that goes on with it."""
    first_gates, gates = Gates(), Gates()
    first: Engine = await open_engine(DOCUMENT, services={Gates: first_gates})
    run = await first.start("sends", {})
    await first_gates.at("mail")[0].wait()
    await first.__aexit__()
    gates.at("mail")[1].set()
    second: Engine = await open_engine(DOCUMENT, services={Gates: gates})
    await second.resume_unfinished()
    return second, run, gates


async def asked(engine: Engine, run: str) -> Question:
    """The question, once it is open."""
    for _ in range(6000):
        if question := engine.questions(run).get("sent/outcome[1]"):
            return question
        await asyncio.sleep(0.01)
    raise AssertionError("nobody is asked what became of the call")


@pytest.mark.parametrize(
    ("answer", "status", "outputs", "again"),
    [
        ("again", "done", {"text": "MAIL"}, True),
        ('{"text": "it came"}', "done", {"text": "IT CAME"}, False),
        ("fail", "failed", {}, False),
        ('{"words": "it came"}', "failed", {}, False),
    ],
)
async def test_person_says_what_became_of_it(
    open_engine: OpenEngine, answer: str, status: str, outputs: dict[str, Any], *, again: bool
) -> None:
    """Nothing is sent twice without a person's word, and a run need not be lost over it."""
    engine, run, gates = await cut_off(open_engine)
    question = await asked(engine, run)
    assert "unknown outcome" in question.text
    assert question.show == {"name": "mail"}

    await engine.answer(run, "sent/outcome[1]", answer, by="anna")
    done = await asyncio.wait_for(engine.wait(run), 60)

    assert (done.status, done.outputs) == (status, outputs)
    assert gates.at("mail")[0].is_set() is again


async def test_answer_outlives_the_next_process(open_engine: OpenEngine, tmp_path: Path) -> None:
    """What was said once is not asked again, though the process died before it was followed."""
    engine, run, _ = await cut_off(open_engine)
    await asked(engine, run)
    await engine.__aexit__()
    between: Engine = await open_engine(DOCUMENT)
    await between.answer(run, "sent/outcome[1]", '{"text": "it came"}', by="anna")
    await between.resume_unfinished()

    done = await asyncio.wait_for(between.wait(run), 60)

    assert done.outputs == {"text": "IT CAME"}


@pytest.mark.parametrize("effect", sorted(EFFECTS - {"external", "human"}))
async def test_call_that_changes_nothing_outside_is_made_again(
    open_engine: OpenEngine, effect: Effect
) -> None:
    """A restart while a model thinks or a page is fetched is nothing to bother a person with."""

    @tool("some.thing", effect=effect)
    async def thing(ctx: Context) -> Text:
        """Do something that takes its time."""
        reached, opened = ctx.service(Gates).at("thing")
        reached.set()
        await opened.wait()
        return Text(text=f"attempt {ctx.attempt}")

    text = "id: w\nsteps: [{id: a, use: some.thing}]\noutputs: {text: '{{ a.text }}'}"
    gates, after = Gates(), Gates()
    first: Engine = await open_engine(services={Gates: gates})
    first.learn([thing])
    run = await first.start(first.plan(load_document(text, file="w.yaml")), {})
    await gates.at("thing")[0].wait()
    await first.__aexit__()
    after.at("thing")[1].set()

    second: Engine = await open_engine(services={Gates: after})
    second.learn([thing])
    await second.resume_unfinished()

    done = await asyncio.wait_for(second.wait(run), 60)
    assert (done.status, done.outputs) == ("done", {"text": "attempt 2"})
