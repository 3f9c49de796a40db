"""Watching runs: every event once and in order, every word, to any number of listeners."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from pydantic import BaseModel

from pipecatapp.records import conversations
from pipecatapp.workflow import (
    Context,
    Delta,
    Engine,
    Event,
    Listener,
    UnknownRun,
    load_document,
    tool,
)
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates, Script

GATED = """
id: gated
defaults: {cache: never}
inputs: {text: {type: text, default: hi}}
steps:
  - {id: one, use: text.upper, with: {text: "{{ inputs.text }}"}, stream: true}
  - {id: quiet, use: text.upper, with: {text: unheard}}
  - {id: wait, use: gate.pass, with: {name: wait}}
  - id: nested
    stream: true
    steps:
      - {id: two, use: text.upper, with: {text: "two words"}, stream: true}
  - id: shut
    steps:
      - {id: three, use: text.upper, with: {text: unheard}, stream: true}
outputs: {text: "{{ one.text }}"}
"""
WHISPERING = """
id: whispering
steps: [{id: said, use: word.whisper, stream: true}]
outputs: {text: "{{ said.text }}"}
"""
UNGATED = GATED.replace("gate.pass, with: {name", "text.upper, with: {text")


class Whispered(BaseModel):
    text: str


async def test_listener_from_the_start_hears_everything_in_order(open_engine: OpenEngine) -> None:
    """A chat caller gets each word between the start and the end of the node that says it."""
    gates = Gates()
    engine: Engine = await open_engine(GATED, services={Gates: gates})
    gates.at("wait")[1].set()
    listener = Listener()

    run = await engine.start("gated", {}, listener=listener)
    heard = [
        f"{item.path}: {item.text}" if isinstance(item, Delta) else f"{item.type} {item.path}"
        async for item in listener
    ]

    assert heard == [
        "run.started ",
        "node.running one",
        "one: hi",
        "node.done one",
        "node.running quiet",
        "node.done quiet",
        "node.running wait",
        "node.done wait",
        "node.running nested",
        "node.running nested/two",
        "nested/two: two words",
        "node.done nested/two",
        "node.done nested",
        "node.running shut",
        "node.running shut/three",
        "node.done shut/three",
        "node.done shut",
        "run.done ",
    ]
    assert (await engine.wait(run)).status == "done"


@tool("word.whisper", effect="pure")
async def whisper(ctx: Context) -> Whispered:
    """Say a word to those who listen, and give another."""
    await ctx.say("".join(["to-be", "-forgotten"]))
    return Whispered(text="to-be-kept")


async def test_words_on_their_way_are_nowhere_in_the_ledger(open_engine: OpenEngine) -> None:
    """Thousands of pieces of text would be thousands of writes, of what the output says anyway."""
    engine: Engine = await open_engine()
    engine.learn([whisper])
    plan = engine.plan(load_document(WHISPERING, file="test.yaml"))
    listener = Listener()

    run = await engine.start(plan, {}, listener=listener)
    said = [item.text async for item in listener if isinstance(item, Delta)]
    await engine.wait(run)
    kept = b"".join(one.read_bytes() for one in engine.ledger.path.parent.glob("ledger.db*"))

    assert said == ["to-be-forgotten"]
    assert b"to-be-kept" in kept
    assert b"to-be-forgotten" not in kept


async def test_followers_have_no_gap_and_no_duplicate(open_engine: OpenEngine) -> None:
    """A page that reconnects at any event goes on exactly behind it, while the run goes on too."""
    gates = Gates()
    reads = ["wait", *(f"n{i}" for i in range(39))]
    nodes = "\n".join(
        f"  - {{id: n{i}, use: text.upper, with: {{text: '{{{{ {read}.text }}}}'}}}}"
        for i, read in enumerate(reads)
    )
    engine: Engine = await open_engine(
        "id: long\ndefaults: {cache: never}\nsteps:\n"
        f"  - {{id: wait, use: gate.pass, with: {{name: wait}}}}\n{nodes}",
        services={Gates: gates},
    )
    run = await engine.start("long", {})
    await gates.at("wait")[0].wait()

    async def follow(after: int) -> list[Event]:
        return [event async for event in engine.follow(run, after=after)]

    async def join_late(turns: int) -> list[Event]:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await follow(0)

    following = [asyncio.create_task(follow(after)) for after in range(60)]
    following += [asyncio.create_task(join_late(turns)) for turns in range(0, 400, 7)]
    await asyncio.sleep(0)
    gates.at("wait")[1].set()
    found = await asyncio.gather(*following)

    whole = await follow(0)
    assert len(whole) == 2 + 2 * 41
    assert whole[-1].type == "run.done"
    for after, events in enumerate(found[:60]):
        assert events == [event for event in whole if event.seq > after]
    assert all(events == whole for events in found[60:])


async def test_slow_listener_holds_nobody_up_and_loses_nothing(open_engine: OpenEngine) -> None:
    """A page in a background tab reads its answer in one piece when it wakes."""
    text = " ".join(str(i) for i in range(5000))
    engine: Engine = await open_engine(
        "id: talk\nsteps: [{id: say, use: llm, with: {text: go}, stream: true}]",
        services={Script: Script(text)},
    )
    listener = Listener()

    run = await engine.start("talk", {}, listener=listener)
    await engine.wait(run)
    heard = [item async for item in listener]

    assert [item.text for item in heard if isinstance(item, Delta)] == [text]
    assert [item.type for item in heard if isinstance(item, Event)][-1] == "run.done"


async def test_late_listener_gets_the_text_so_far(open_engine: OpenEngine) -> None:
    """A page that is loaded in mid-answer shows all of it, and knows that by the offset."""
    gates = Gates()
    engine: Engine = await open_engine(GATED, services={Gates: gates})
    run = await engine.start("gated", {"text": "early"})
    await gates.at("wait")[0].wait()

    async def listen() -> list[Delta | Event]:
        return [item async for item in engine.listen(run, after=0)]

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    gates.at("wait")[1].set()
    heard = await listening

    deltas = [(item.path, item.text, item.offset) for item in heard if isinstance(item, Delta)]
    assert deltas == [("one", "early", 0), ("nested/two", "two words", 0)]
    events = [item for item in heard if isinstance(item, Event)]
    assert events == [event async for event in engine.follow(run)]


async def test_many_runs_keep_to_themselves(open_engine: OpenEngine) -> None:
    """Twenty callers at once each get their own answer, and nothing of another's."""
    engine: Engine = await open_engine(UNGATED)

    async def call(i: int) -> tuple[str, str]:
        listener = Listener()
        run = await engine.start("gated", {"text": f"caller {i}"}, listener=listener)
        heard = [item async for item in listener]
        assert {item.run for item in heard} == {run}
        text = "".join(
            item.text for item in heard if isinstance(item, Delta) and item.path == "one"
        )
        return text, (await engine.wait(run)).outputs["text"]

    answers = await asyncio.gather(*(call(i) for i in range(50)))

    assert answers == [(f"caller {i}", f"CALLER {i}") for i in range(50)]


async def test_list_pages_and_filters(open_engine: OpenEngine) -> None:
    """The list of runs shows the newest first, page by page, and one conversation at a time."""
    other = "id: other\nsteps: []"
    engine: Engine = await open_engine(UNGATED, other)
    runs = [
        await engine.start("gated", {"text": f"question {i}"}, conversation=f"c{i % 2}")
        for i in range(5)
    ]
    runs.append(await engine.start("other", {}))
    for run in runs:
        await engine.wait(run)

    first = engine.runs(limit=2)
    second = engine.runs(limit=3, before=first[-1].id)

    assert [run.id for run in (*first, *second)] == runs[::-1][:5]
    assert [run.id for run in engine.runs(workflow="other")] == [runs[5]]
    assert [run.title for run in engine.runs(conversation="c1")] == ["question 3", "question 1"]
    assert [
        (turn.user, turn.assistant) for turn in conversations.turns(engine.ledger.read, "c0", 2)
    ] == [
        ("question 2", "QUESTION 2"),
        ("question 4", "QUESTION 4"),
    ]
    assert [(c.id, c.title) for c in conversations.conversations(engine.ledger.read, 50)[0]] == [
        ("c0", "question 0"),
        ("c1", "question 1"),
    ]


async def test_history_survives_the_engine(open_engine: OpenEngine) -> None:
    """Yesterday's runs are there today; a run that is over can be waited for and followed."""
    first: Engine = await open_engine("id: empty\nsteps: []\noutputs: {text: done}")
    run = await first.start("empty", {})
    await first.wait(run)
    view = first.run(run)
    await first.__aexit__()

    second: Engine = await open_engine()

    assert second.run(run) == view
    assert (await second.wait(run)).outputs == {"text": "done"}
    assert [event.type async for event in second.follow(run)] == ["run.started", "run.done"]
    assert [item async for item in second.listen(run)] == []
    await second.cancel(run)
    for ask in (second.wait, second.cancel):
        with pytest.raises(UnknownRun, match="no run 'nope'"):
            await ask("nope")


async def test_run_that_an_engine_left_goes_on_with_the_next(open_engine: OpenEngine) -> None:
    """A restart for an update costs nobody a run; limits count on, and the plan is the old one."""
    gates, after = Gates(), Gates()
    document = GATED.replace("steps:\n  - {id: one", "limits: {nodes: 9}\nsteps:\n  - {id: one")
    first: Engine = await open_engine(document, services={Gates: gates})
    run = await first.start("gated", {"text": "kept"})
    await gates.at("wait")[0].wait()
    await first.__aexit__()
    assert first.run(run).status == "running"

    second: Engine = await open_engine("id: gated\nsteps: []", services={Gates: after})
    assert await second.resume_unfinished() == [run]
    await after.at("wait")[0].wait()
    after.at("wait")[1].set()

    assert (await second.wait(run)).outputs == {"text": "KEPT"}
    attempts = {step.path: step.attempt for step in second.run(run).steps}
    assert attempts["wait"] == 2
    assert attempts["one"] == 1
    assert await second.resume_unfinished() == []


@tool("program.run", effect="exec")
async def program(ctx: Context) -> Whispered:
    """Run until somebody ends it."""
    reached, opened = ctx.service(Gates).at("program")
    reached.set()
    await opened.wait()
    return Whispered(text="")


@pytest.mark.parametrize("where", ["local", "nomad"])
async def test_resting_run_is_cancelled_unless_a_program_may_run_elsewhere(
    open_engine: OpenEngine, where: str
) -> None:
    """Nobody needs the service to end a run; but only the service can end a job of a cluster."""
    gates = Gates()
    first: Engine = await open_engine(services={Gates: gates})
    first.learn([program])
    document = f"id: held\nsteps: [{{id: b, steps: [{{id: a, use: program.run, where: {where}}}]}}]"
    run = await first.start(first.plan(load_document(document, file="test.yaml")), {})
    await gates.at("program")[0].wait()
    await first.__aexit__()
    second: Engine = await open_engine()

    if where == "nomad":
        with pytest.raises(UnknownRun, match="b/a may still run in another place"):
            await second.cancel(run)
        assert second.run(run).status == "running"
        return
    *_, resumed = await asyncio.gather(
        second.cancel(run), second.cancel(run), second.resume_unfinished()
    )

    assert (resumed, second.run(run).status) == ([], "cancelled")
    assert {step.path: step.status for step in second.run(run).steps} == {
        "b": "cancelled",
        "b/a": "cancelled",
    }
    ends = [event.path async for event in second.follow(run) if "cancelled" in event.type]
    assert ends == ["b/a", "b", ""]


async def test_objects_keep_their_order_over_a_restart(open_engine: OpenEngine) -> None:
    """An object that is written into a text gives the same text, so the outputs are the same."""
    document = """
id: order
inputs: {data: object}
steps:
  - {id: typed, use: llm, with: {text: x}, returns: {zebra: text, apple: text}}
  - {id: wait, use: gate.pass, with: {name: wait}}
outputs: {text: "{{ typed }} {{ inputs.data }}"}
"""
    gates, after = Gates(), Gates()
    script = Script('{"zebra": "z", "apple": "a"}')
    first: Engine = await open_engine(document, services={Gates: gates, Script: script})
    run = await first.start("order", {"data": {"z": 1, "a": 2}})
    await gates.at("wait")[0].wait()
    await first.__aexit__()

    second: Engine = await open_engine(services={Gates: after})
    await second.resume_unfinished()
    after.at("wait")[1].set()

    outputs = (await second.wait(run)).outputs
    assert outputs == {"text": '{"zebra": "z", "apple": "a"} {"z": 1, "a": 2}'}


SPENDING = """
id: spending
limits: {LIMIT}
steps:
  - {id: before, use: model.dear}
  - {id: wait, use: gate.pass, with: {name: wait}}
  - {id: after, use: model.dear}
"""


@tool("model.dear", effect="read")
async def dear(ctx: Context) -> Whispered:
    """Cost something."""
    ctx.record(prompt_tokens=10, completion_tokens=5, cost=1.5)
    return Whispered(text="x")


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ("nodes: 3", "after: limits.nodes is 3, and this would be 4"),
        ("tokens: 20", "after: limits.tokens is 20, and this would be 30"),
        ("cost: 2", "after: limits.cost is 2, and this would be 3"),
        ("wall: 1h", "limits.wall is 3600 s, and they are over"),
    ],
)
async def test_limits_count_over_a_restart(open_engine: OpenEngine, limit: str, error: str) -> None:
    """A run that restarts every minute must not get its budget anew each time."""
    gates, after = Gates(), Gates()
    first: Engine = await open_engine(services={Gates: gates})
    first.learn([dear])
    plan = first.plan(load_document(SPENDING.replace("LIMIT", limit), file="test.yaml"))
    run = await first.start(plan, {})
    await gates.at("wait")[0].wait()
    await first.__aexit__()
    if limit.startswith("wall"):
        with closing(sqlite3.connect(first.ledger.path)) as ledger, ledger:
            ledger.execute(
                "UPDATE event SET at = '2000-01-01T00:00:00.000Z' WHERE type = 'run.started'"
            )
    else:  # The wall is to end the run while it is held.
        after.at("wait")[1].set()

    second: Engine = await open_engine(services={Gates: after})
    second.learn([dear])
    await second.resume_unfinished()

    assert (await asyncio.wait_for(second.wait(run), 60)).error == error


async def test_run_whose_tool_is_gone_fails_clearly(open_engine: OpenEngine) -> None:
    """An update that drops a tool ends the runs that need it, with the reason."""
    gates = Gates()
    first: Engine = await open_engine(GATED, services={Gates: gates})
    run = await first.start("gated", {})
    await gates.at("wait")[0].wait()
    await first.__aexit__()

    async with Engine(first.ledger, tools=()) as second:
        await second.resume_unfinished()
        view = second.run(run)

    assert view.status == "failed"
    assert (view.error or "").startswith("cannot be resumed: the tool ")
