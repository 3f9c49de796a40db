"""Loops: every kind, their names, their bounds, and what they give."""

import asyncio
import json

import pytest

from pipecatapp.workflow import Engine, RunResult
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.test_scheduler import run, statuses
from tests.unit.workflow.tools import Gates, Script


def starts(engine: Engine, result: RunResult) -> list[str]:
    """The paths of all that began, in order."""
    events = engine.ledger.read.all_events(result.run, after=0)
    return [event.path for event in events if event.type == "node.running"]


EACH = """
id: each
inputs: {words: list of text}
steps:
  - {id: shout, use: text.upper, for: "{{ inputs.words }}", with: {text: "{{ item }}"}}
outputs: {count: "{{ shout.count }}", all: "{{ shout.all | map(attribute='text') }}",
  last: "{{ shout.last }}"}
"""


@pytest.mark.proves("001-32")
@pytest.mark.parametrize(
    ("words", "all_of_them", "last"),
    [
        ([], [], None),
        (["a"], ["A"], {"text": "A"}),
        (["c", "a", "b"], ["C", "A", "B"], {"text": "B"}),
    ],
)
async def test_for_visits_each_item_and_keeps_their_order(
    open_engine: OpenEngine, words: list[str], all_of_them: list[str], last: object
) -> None:
    """No item, one or many: the results stand in the order of the items."""
    engine = await open_engine(EACH)

    result = await run(engine, "each", words=words)

    assert result.outputs == {"count": len(words), "all": all_of_them, "last": last}
    assert starts(engine, result) == ["shout", *(f"shout[{i}]" for i in range(len(words)))]
    assert {step.node for step in engine.run(result.run).steps} == {"shout"}


@pytest.mark.proves("001-32")
async def test_parallel_items_end_in_any_order_and_are_given_in_theirs(
    open_engine: OpenEngine,
) -> None:
    """Three at a time, never more; the fourth begins when one has ended."""
    gates = Gates()
    engine = await open_engine(
        """
id: wide
steps:
  - {id: pass, use: gate.pass, for: {each: [a, b, c, d, e], as: name, parallel: 3},
     with: {name: "{{ name }}"}}
outputs: {all: "{{ pass.all | map(attribute='text') }}"}
""",
        services={Gates: gates},
    )

    started = await engine.start("wide", {})
    for name in "abc":
        await gates.at(name)[0].wait()
    assert not gates.at("d")[0].is_set()
    gates.at("c")[1].set()
    await gates.at("d")[0].wait()
    for name in "edba":
        gates.at(name)[1].set()
        await asyncio.sleep(0)

    assert (await engine.wait(started)).outputs == {"all": ["a", "b", "c", "d", "e"]}
    assert gates.most_inside == 3


NESTED = """
id: grid
steps:
  - id: row
    for: {each: [x, y], as: r}
    steps:
      - {id: own, use: text.upper, with: {text: "{{ r }}"}}
      - id: cell
        for: {each: [1, 2], as: c}
        use: text.upper
        with: {text: "{{ r }}{{ c }} {{ loop.index }} {{ loop.first }} {{ loop.parent.index }}
          {{ loop.parent.parent }} {{ own.text }} {{ prev.text | default('-') }}"}
outputs: {all: "{{ row.last.cell.all | map(attribute='text') }}", own: "{{ row.all[0].own.text }}"}
"""


async def test_loops_stand_inside_each_other(open_engine: OpenEngine) -> None:
    """Each knows its own index and that of the loop around it; paths name every visit."""
    engine = await open_engine(NESTED)

    result = await run(engine, "grid")

    first = "Y1 0 TRUE 1  Y "
    assert result.outputs == {"own": "X", "all": [first, f"Y2 1 FALSE 1  Y {first}"]}
    assert starts(engine, result)[:7] == [
        "row",
        "row[0]",
        "row[0]/own",
        "row[0]/cell",
        "row[0]/cell[0]",
        "row[0]/cell[1]",
        "row[1]",
    ]
    nodes = {step.path: step.node for step in engine.run(result.run).steps}
    assert nodes["row[1]/cell[0]"] == "row/cell"


UNTIL = """
id: until
inputs: {max: integer}
steps:
  - id: fix
    until: "{{ test.value >= 6 }}"
    max: 5
    steps:
      - {id: draft, use: number.double, with: {value: "{{ prev.test.value or 1 }}"}}
      - {id: test, use: number.double, with: {value: "{{ draft.value - 1 }}"}}
outputs: {last: "{{ fix.last.test.value }}", count: "{{ fix.count }}",
  all: "{{ fix.all | map(attribute='test') | map(attribute='value') }}"}
"""


async def test_until_looks_after_each_visit(open_engine: OpenEngine) -> None:
    """It runs once at least; `prev` is null in the first visit, then what the last one gave."""
    engine = await open_engine(UNTIL)

    result = await run(engine, "until", max=5)

    assert result.outputs == {"last": 6, "count": 2, "all": [2, 6]}
    assert starts(engine, result) == [
        "fix",
        *("fix[0]", "fix[0]/draft", "fix[0]/test"),
        *("fix[1]", "fix[1]/draft", "fix[1]/test"),
    ]


@pytest.mark.proves("001-33")
@pytest.mark.parametrize(("least", "count", "last"), [(0, 0, None), (1, 1, 2), (8, 3, 8)])
async def test_while_looks_before_each_visit(
    open_engine: OpenEngine, least: int, count: int, last: int | None
) -> None:
    """It may not run at all; a tool can loop by itself, without a scope around it."""
    engine = await open_engine("""
id: grow
inputs: {least: integer}
steps:
  - {id: two, use: number.double, while: "{{ (prev.value or 0) < inputs.least }}", max: 9,
     with: {value: "{{ prev.value or 1 }}"}}
outputs: {count: "{{ two.count }}", last: "{{ two.last.value | default(none) }}"}
""")

    result = await run(engine, "grow", least=least)

    assert result.outputs == {"count": count, "last": last}


ENDLESS = """
id: endless
steps:
  - id: ask
    until: "{{ ask.text == 'yes' }}"
    max: 3
    on_max: ON_MAX
    use: llm
    with: {text: "Again, {{ loop.index }}?"}
  - {id: after, use: text.upper, with: {text: "{{ ask.last.text }} {{ ask.count }}"}}
outputs: {text: "{{ after.text }}"}
"""


@pytest.mark.proves("001-33")
@pytest.mark.parametrize(
    ("on_max", "status", "text", "error"),
    [
        ("continue", "done", "NO 3", None),
        ("fail", "failed", None, "ask: after 3 visits, which is its `max`, it is not over"),
    ],
)
async def test_max_ends_a_loop(
    open_engine: OpenEngine, on_max: str, status: str, text: str | None, error: str | None
) -> None:
    """No loop goes on for ever; its document says whether its end by `max` is good enough."""
    script = Script("no", "no", "no", "yes")
    engine = await open_engine(ENDLESS.replace("ON_MAX", on_max), services={Script: script})

    result = await run(engine, "endless")

    assert (result.status, result.outputs.get("text"), result.error) == (status, text, error)
    assert len(script.asked) == 3


@pytest.mark.parametrize(
    ("answers", "visits"),
    [(("a", "b", "b", "yes"), "2 and 3"), (("a", "b", "a", "yes"), "1 and 3")],
)
async def test_loop_that_is_stuck_has_reached_its_max(
    open_engine: OpenEngine, answers: tuple[str, ...], visits: str
) -> None:
    """A model that repeats an earlier answer, at once or after another one, makes no progress."""
    script = Script(*answers)
    document = ENDLESS.replace("on_max: ON_MAX", 'stuck_on: "{{ ask.text }}"')
    engine = await open_engine(document.replace("max: 3", "max: 9"), services={Script: script})

    result = await run(engine, "endless")

    assert result.error == f"ask: it is stuck: visits {visits} ended alike"
    assert len(script.asked) == 3


@pytest.mark.parametrize(
    ("over", "error"),
    [
        ('for: "{{ inputs.any }}"', "a: `for` takes a list, not 'text'"),
        ('while: "{{ inputs.any }}", max: 2', "a: `while` must be true or false, not 'text'"),
        ('until: "{{ inputs.any }}", max: 2', "a: `until` must be true or false, not 'text'"),
        ('for: "{{ inputs.any.x }}"', "a: inputs.any.x: there is no item 'x' in a str"),
    ],
)
async def test_loop_over_something_else_fails(
    open_engine: OpenEngine, over: str, error: str
) -> None:
    """What an expression gives is known only in the run; a wrong one names its node."""
    engine = await open_engine(
        f"id: odd\ninputs: {{any: any}}\nsteps: [{{id: a, steps: [], {over}}}]"
    )

    result = await run(engine, "odd", any="text")

    assert (result.error or "").replace("{{ ", "").replace(" }}", "") == error
    assert statuses(engine, result)["a"] == "failed"


async def test_loop_is_skipped_as_a_whole(open_engine: OpenEngine) -> None:
    """Its `if` is looked at once, before the first visit; readers of it are skipped too."""
    engine = await open_engine("""
id: whole
steps:
  - {id: a, if: "{{ false }}", use: text.upper, for: [x, y], with: {text: "{{ item }}"}}
  - {id: b, use: text.upper, for: "{{ a.all }}", with: {text: "{{ item.text }}"}}
outputs: {text: "{{ first(b.count, 'none') }}"}
""")

    result = await run(engine, "whole")

    assert result.outputs == {"text": "none"}
    assert statuses(engine, result) == {"a": "skipped", "b": "skipped"}


async def test_every_visit_counts_for_the_limits(open_engine: OpenEngine) -> None:
    """A list that is longer than thought does not run a machine hot over night."""
    engine = await open_engine(EACH.replace("steps:", "limits: {nodes: 3}\nsteps:"))

    result = await run(engine, "each", words=["a", "b", "c", "d"])

    assert result.error == "shout[2]: limits.nodes is 3, and this would be 4"


async def test_thousands_of_items_are_visited_without_depth(open_engine: OpenEngine) -> None:
    """A long list is no deep recursion, also where nothing has to be waited for."""
    engine = await open_engine("""
id: long
inputs: {many: list of integer}
limits: {nodes: 9000}
steps:
  - {id: a, for: "{{ inputs.many }}", steps: []}
outputs: {count: "{{ a.count }}"}
""")

    result = await run(engine, "long", many=list(range(3000)))

    assert result.outputs == {"count": 3000}


@pytest.mark.proves("001-20")
async def test_workflows_inside_each_other_are_bounded(open_engine: OpenEngine) -> None:
    """One that would run inside itself with the same inputs is refused with the way there."""
    engine = await open_engine(
        """
id: ping
inputs: {n: integer}
limits: {depth: 4}
steps: [{id: on, use: workflow/pong, with: {n: "{{ inputs.n }}"}}]
""",
        """
id: pong
inputs: {n: integer}
steps: [{id: back, use: workflow/ping, with: {n: "{{ inputs.n + STEP }}"}}]
""".replace("STEP", "0"),
        """
id: deep
inputs: {n: {type: integer, default: 0}}
limits: {depth: 4}
steps: [{id: in, use: workflow/deep, with: {n: "{{ inputs.n + 1 }}"}}]
""".replace("id: in,", "id: inner,"),
    )

    circle = await run(engine, "ping", n=1)
    deep = await run(engine, "deep")

    assert (circle.error or "").endswith("with the same inputs: ping → pong → ping")
    assert (deep.error or "").endswith("workflows are nested more than 4 levels deep")


async def test_outputs_of_visits_are_data(open_engine: OpenEngine) -> None:
    """What looks like an expression in an item stays the text it is."""
    engine = await open_engine(EACH)

    result = await run(engine, "each", words=["{{ inputs }}"])

    assert json.dumps(result.outputs["all"]) == '["{{ INPUTS }}"]'
