"""Incremental is clean: a fork of an edited graph gives what a new run of it would have given."""

import asyncio
import json
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from pipecatapp.workflow import Context, Engine, Ledger, RunResult, load_document, tool

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Nothing is cut off here, so nothing has to be on a disk."""
CALLS: Counter[str] = Counter()


class Text(BaseModel):
    text: str


def counted(ctx: Context, text: str) -> Text:
    CALLS[f"{ctx.run} {ctx.path}"] += 1
    return Text(text=text)


@tool("words.join", effect="pure")
async def join(ctx: Context, parts: list[str], by: str) -> Text:
    """Join some texts."""
    return counted(ctx, by.join(parts))


@tool("words.first", effect="pure")
async def first(ctx: Context, parts: list[str], by: str) -> Text:
    """The first of some texts, so that most changes of the others end here."""
    return counted(ctx, parts[0] if parts else by)


@tool("words.send", effect="external")
async def send(ctx: Context, parts: list[str], by: str) -> Text:
    """Send some texts."""
    return counted(ctx, by.join(sorted(parts)))


@dataclass(frozen=True)
class Step:
    """A node: its tool, what it joins with, and the earlier nodes and literals it reads."""

    use: str
    by: str
    reads: tuple[int, ...]
    word: str
    each: bool = False


Graph = tuple[Step, ...]
WORDS = st.sampled_from(["a", "b", "c"])
STEPS = st.builds(
    Step,
    use=st.sampled_from(["words.join", "words.first", "words.send"]),
    by=WORDS,
    reads=st.lists(st.integers(0, 20), max_size=2).map(tuple),
    word=WORDS,
    each=st.booleans(),
)
GRAPHS = st.lists(STEPS, min_size=2, max_size=7).map(tuple)
EDITS = st.lists(st.tuples(st.integers(0, 6), STEPS, st.booleans()), min_size=1, max_size=3)


def document(graph: Graph) -> str:
    """The graph as JSON, which is YAML; a node reads only what stands before it."""
    nodes: list[dict[str, Any]] = []
    for number, step in enumerate(graph):
        reads = [f"n{one % number}" for one in step.reads] if number else []
        parts = [f"{{{{ {text_of(graph, name)} }}}}" for name in reads] + [step.word]
        call: dict[str, Any] = {"use": step.use, "with": {"parts": parts, "by": step.by}}
        if step.each:
            parts.append("{{ item }}")
            call = {"for": ["x", "y"], "steps": [{"id": f"in{number}", **call}]}
        nodes.append({"id": f"n{number}", **call})
    outputs = {node["id"]: f"{{{{ {text_of(graph, node['id'])} }}}}" for node in nodes}
    return json.dumps({"id": "drawn", "graph": nodes, "outputs": outputs})


def text_of(graph: Graph, name: str) -> str:
    number = int(name[1:])
    return f"{name}.last.in{number}.text" if graph[number].each else f"{name}.text"


def edited(graph: Graph, edits: list[tuple[int, Step, bool]]) -> Graph:
    """Some nodes replaced, or only a literal of them changed."""
    steps = list(graph)
    for place, new, whole in edits:
        at = place % len(steps)
        steps[at] = new if whole else replace(steps[at], word=new.word)
    return tuple(steps)


async def ran(engine: Engine, text: str, origin: str | None) -> RunResult:
    plan = engine.plan(load_document(text, file="drawn.yaml"))
    run = await engine.fork(origin, plan=plan) if origin else await engine.start(plan, {})
    return await asyncio.wait_for(engine.wait(run), 60)


async def outputs(graph: Graph, edits: list[tuple[int, Step, bool]]) -> list[dict[str, Any]]:
    """What a fork of the edited graph gives, what a new run of it does, and what a fork of the
    fork does, in which nothing is called.
    """
    CALLS.clear()
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        ledgers = [Ledger(Path(name, file)) for file in ("old.db", "new.db")]
        async with (
            Engine(ledgers[0], tools=[join, first, send]) as old,
            Engine(ledgers[1], tools=[join, first, send]) as new,
        ):
            before = await ran(old, document(graph), None)
            after = edited(graph, edits)
            incremental = await ran(old, document(after), before.run)
            clean = await ran(new, document(after), None)
            again = await ran(old, document(after), incremental.run)
        for ledger in ledgers:
            ledger.close()
    assert not [call for call in CALLS if call.startswith(again.run)]
    return [incremental.outputs, clean.outputs, again.outputs]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(GRAPHS, EDITS)
def test_incremental_is_clean(graph: Graph, edits: list[tuple[int, Step, bool]]) -> None:
    """Whatever is edited, nobody can tell from the outputs that most of it was not done again."""
    incremental, clean, again = asyncio.run(outputs(graph, edits))

    assert incremental == clean == again
