"""Nodes that are renamed: names key everything, so nothing may be lost or swapped by a new one."""

import asyncio

from pipecatapp.workflow import Engine, load_document
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates

DOCUMENT = """
id: names
inputs: {n: integer}
steps:
  - {id: a, use: number.double, with: {value: "{{ inputs.n }}"}}
  - {id: hold, use: gate.pass, with: {name: hold}}
  - {id: b, use: number.double, with: {value: "{{ a.value }}"}}
  - {id: last, use: number.double, with: {value: "{{ b.value }}"}}
outputs: {a: "{{ a.value }}", b: "{{ b.value }}", last: "{{ last.value }}"}
"""
RENAMED = (
    DOCUMENT.replace("id: b,", "id: bee,")
    .replace("b.value", "bee.value")
    .replace("id: a,", "id: b,")
).replace("{{ a.value", "{{ b.value")
"""`b` is `bee` now, and `a` is `b`: by their names alone the outputs would be swapped."""


def called(engine: Engine, run: str) -> list[str]:
    events = engine.ledger.read.all_events(run, after=0)
    return [e.path for e in events if e.type == "node.running" and e.data.get("tool")]


async def test_run_goes_on_as_it_began_though_its_document_was_renamed(
    open_engine: OpenEngine,
) -> None:
    """A run keeps the graph that it began with; its last node runs whatever it is called now."""
    gates = Gates()
    first: Engine = await open_engine(DOCUMENT, services={Gates: gates})
    run = await first.start("names", {"n": 1})
    await gates.at("hold")[0].wait()
    await first.__aexit__()
    opened = Gates()
    opened.at("hold")[1].set()
    second: Engine = await open_engine(RENAMED, services={Gates: opened})
    await second.resume_unfinished()

    ended = await asyncio.wait_for(second.wait(run), 60)

    assert ended.outputs == {"a": 2, "b": 4, "last": 8}
    assert called(second, run) == ["a", "hold", "hold", "b", "last"]


async def test_fork_of_a_renamed_graph_gives_what_a_new_run_would(open_engine: OpenEngine) -> None:
    """What is computed is known by what goes in, so a new name costs nothing and swaps nothing."""
    gates = Gates()
    gates.at("hold")[1].set()
    engine: Engine = await open_engine(DOCUMENT, services={Gates: gates})
    run = await engine.start("names", {"n": 1})
    await engine.wait(run)
    plan = engine.plan(load_document(RENAMED, file="renamed.yaml"))

    forked = await asyncio.wait_for(engine.wait(await engine.fork(run, plan=plan)), 60)

    assert forked.outputs == {"a": 2, "b": 4, "last": 8}
    assert called(engine, forked.run) == []
