"""Work that grows with a run or a document: four times as much of it takes four times the work.

Work is counted, never timed: calls of Python, and instructions of SQLite's virtual machine.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pipecatapp.workflow import compile_workflow, load_document
from pipecatapp.workflow.compiling.checks import apart
from pipecatapp.workflow.compiling.names import Later, Visible
from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.ledger.schema import connect
from pipecatapp.workflow.views import json_of, view
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import TOOLS

SMALL = 60
LARGE = 4 * SMALL
MOST = 6
"""Times the work of a quarter of the size: 4 for linear, 16 for quadratic work."""
LOOP = """
id: loud
limits: {nodes: 2000}
inputs: {texts: list of text}
steps:
  - id: each
    for: "{{ inputs.texts }}"
    steps:
      - {id: up, use: text.upper, with: {text: "{{ item }}"}}
outputs: {count: "{{ each.count }}"}
"""


def calls(work: Callable[[], object]) -> int:
    """How many functions are called for some work."""
    count = 0

    def called(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


class Counting(Reader):
    """Counts, of each query, the instructions that SQLite needs for it, in tens."""

    instructions = 0

    def rows(self, sql: str, values: Any = ()) -> Any:
        with closing(connect(self.path, patience=5)) as connection:
            connection.set_progress_handler(self._progress, 10)
            connection.execute(sql, tuple(values)).fetchall()
        return super().rows(sql, values)

    def _progress(self) -> int:
        self.instructions += 1
        return 0


async def test_reading_a_run_takes_work_in_proportion_to_its_steps(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """With each step compared with each other one, 10,000 of them took half a minute."""
    engine, found = await open_engine(LOOP), []
    for size in (SMALL, LARGE):
        run = await engine.start("loud", {"texts": [str(number) for number in range(size)]})
        assert (await engine.wait(run)).status == "done"
        with closing(Counting(tmp_path / "ledger.db", patience=5)) as reader:
            row = reader.run(run)
            assert row is not None
            reader.instructions = 0
            work = calls(lambda: json_of(view(engine.ledger.read, row)))  # noqa: B023
            view(reader, row)
            found.append((work, reader.instructions))

    (few, little), (many, much) = found
    assert many < MOST * few
    assert much < MOST * little


async def test_view_of_a_run_keeps_the_order_and_the_sums_of_its_steps(
    open_engine: OpenEngine,
) -> None:
    """What is quick must still be true: steps stand as they began, and spend what is inside."""
    engine = await open_engine(LOOP)
    run = await engine.start("loud", {"texts": ["a", "b", "c"]})
    await engine.wait(run)
    await engine.ledger.submit(
        run, [("UPDATE step SET prompt_tokens = 7, cost = 0.5 WHERE path = 'each[1]/up'", ())]
    )
    steps = engine.run(run).steps

    spent = [(step.path, step.tokens.prompt) for step in steps]
    assert spent == [
        *(("each", 0), ("each[0]", 0), ("each[0]/up", 0), ("each[1]", 7), ("each[1]/up", 7)),
        *(("each[2]", 0), ("each[2]/up", 0)),
    ]
    assert engine.run(run).tokens.cost == 0.5


def steps(size: int) -> str:
    """Each step reads the one before it."""
    lines = ["id: big", "inputs: {text: text}", "steps:"]
    for number in range(size):
        text = f"s{number - 1}.text" if number else "inputs.text"
        lines.append(f'  - {{id: s{number}, use: text.upper, with: {{text: "{{{{ {text} }}}}"}}}}')
    return "\n".join(lines)


def backwards(size: int) -> str:
    """Each node reads the one behind it, so that the first waits for all."""
    lines = ["id: big", "inputs: {text: text}", "graph:"]
    for number in range(size):
        text = f"s{number + 1}.text" if number + 1 < size else "inputs.text"
        lines.append(f'  - {{id: s{number}, use: text.upper, with: {{text: "{{{{ {text} }}}}"}}}}')
    return "\n".join([*lines, 'outputs: {text: "{{ s0.text }}"}'])


def jumps(size: int) -> str:
    """Each step may go back to the first."""
    lines = ["id: big", "inputs: {text: text}", "steps:"]
    lines.append('  - {id: start, use: text.upper, with: {text: "{{ inputs.text }}"}}')
    for number in range(size):
        lines.append(f'  - {{id: j{number}, goto: start, if: "{{{{ false }}}}", max: 2}}')
    return "\n".join(lines)


@pytest.mark.parametrize("document", [steps, backwards, jumps])
def test_compiling_takes_work_in_proportion_to_the_nodes(document: Callable[[int], str]) -> None:
    """With all later siblings looked at for each node, 5,000 of them took 24 seconds."""
    found = []
    for size in (SMALL, LARGE):
        workflow = load_document(document(size), file="big.yaml")
        plan = compile_workflow(workflow, {tool.name: tool for tool in TOOLS})
        tools = {tool.name: tool for tool in TOOLS}
        found.append(calls(lambda: compile_workflow(workflow, tools).graph()))  # noqa: B023
        assert len(plan.graph().nodes) >= size

    few, many = found
    assert many < MOST * few


def test_graph_may_be_deeper_than_the_stack_of_python() -> None:
    """A long chain that is written from its end is no error of the compiler."""
    workflow = load_document(backwards(1200), file="big.yaml")

    plan = compile_workflow(workflow, {tool.name: tool for tool in TOOLS})

    assert len(plan.body.nodes) == 1200
    assert apart(plan.body) == []


class Uncopied(Mapping[str, Any]):
    """Names that may be looked up and not gone through."""

    def __getitem__(self, name: str) -> Any:
        if name != "known":
            raise KeyError(name)
        return {"type": "string"}

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all names were gone through")

    def __len__(self) -> int:
        raise AssertionError("all names were counted")


def test_names_of_a_place_are_laid_over_those_around_it_without_a_copy() -> None:
    """A copy for each node was most of the time that large documents took."""
    text = "id: a\nsteps: [{id: known, use: time.now}]"
    node = (load_document(text, file="a.yaml").document.steps or [])[0]
    places = {f"s{number}": number for number in range(9)}
    outer = Visible(Uncopied(), Uncopied())

    inner = outer.among(Uncopied(), Later(places, 4)).again({}, item={}).without("prev", "no")

    assert inner.known["known"] == {"type": "string"}
    assert "item" in inner.known
    assert [name for name in places if name in inner.barred] == ["s5", "s6", "s7", "s8"]
    assert inner.barred["prev"] == "no"
    assert "known" in inner.barred
    assert "known" not in inner.after(node, {}).barred


def test_schemas_of_a_tool_are_made_once() -> None:
    """Making them anew for each node took half of the time of a compilation."""
    tool = TOOLS[0]

    assert tool.input_schema() is tool.input_schema()
    assert tool.output_schema() is tool.output_schema()
