"""What runs, in which order, and what becomes of the rest."""

import asyncio

import pytest

from pipecatapp.workflow import Engine, InvalidInputs, RunResult
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates, Script


async def run(engine: Engine, workflow: str, **inputs: object) -> RunResult:
    return await engine.wait(await engine.start(workflow, inputs))


def statuses(engine: Engine, result: RunResult) -> dict[str, str]:
    return {step.path: step.status for step in engine.run(result.run).steps}


async def test_steps_give_their_outputs_on(open_engine: OpenEngine) -> None:
    """The simplest workflow there is: one node reads what the one before it gave."""
    engine = await open_engine("""
id: two
inputs: {text: text}
steps:
  - {id: loud, use: text.upper, with: {text: "{{ inputs.text }}"}}
  - {id: twice, use: text.upper, with: {text: "{{ loud.text }} and {{ loud.text | lower }}"}}
outputs: {text: "{{ twice.text }}", run: "{{ run.id }}", request: "{{ run.request }}"}
""")

    result = await run(engine, "two", text="hi")

    assert result.status == "done"
    assert result.outputs == {"text": "HI AND HI", "run": result.run, "request": "hi"}


@pytest.mark.proves("003-01")
async def test_graph_runs_what_is_ready_without_barriers(open_engine: OpenEngine) -> None:
    """`after_a` runs as soon as `a` is done, though `b`, which began with `a`, still runs."""
    gates = Gates()
    engine = await open_engine(
        """
id: wide
graph:
  - {id: joined, use: text.upper, with: {text: "{{ after_a.text }} {{ b.text }}"}}
  - {id: after_a, use: gate.pass, with: {name: "after {{ a.text }}"}}
  - {id: a, use: gate.pass, with: {name: a}}
  - {id: b, use: gate.pass, with: {name: b}}
outputs: {text: "{{ joined.text }}"}
""",
        services={Gates: gates},
    )

    started = await engine.start("wide", {})
    await gates.at("a")[0].wait()
    await gates.at("b")[0].wait()
    gates.at("a")[1].set()
    await gates.at("after a")[0].wait()
    gates.at("after a")[1].set()
    gates.at("b")[1].set()

    assert (await engine.wait(started)).outputs == {"text": "AFTER A B"}


CHOICE = """
id: choice
inputs: {n: integer}
steps:
  - id: big
    if: "{{ inputs.n > 3 }}"
    use: text.upper
    with: {text: big}
    else:
      - {id: small, use: text.upper, with: {text: small}}
      - {id: smaller, if: "{{ inputs.n < 0 }}", use: text.upper, with: {text: "{{ small.text }}er"}}
  - {id: reader, use: text.upper, with: {text: "read {{ big.text }}"}}
  - {id: second_reader, use: text.upper, with: {text: "{{ reader.text }}"}}
  - {id: needer, needs: [smaller], use: text.upper, with: {text: x}}
  - {id: joined, use: text.upper, with: {text: "{{ first(big.text, smaller.text, small.text) }}"}}
outputs:
  text: "{{ joined.text }}"
  read: "{{ reader.text }}"
  or: "{{ reader.text | default('nobody read') }}"
"""


@pytest.mark.proves("001-31")
@pytest.mark.parametrize(
    ("n", "skipped", "outputs"),
    [
        (
            5,
            {"small", "smaller", "needer"},
            {"text": "BIG", "read": "READ BIG", "or": "READ BIG"},
        ),
        (
            1,
            {"big", "smaller", "reader", "second_reader", "needer"},
            {"text": "SMALL", "read": None, "or": "nobody read"},
        ),
        (
            -1,
            {"big", "reader", "second_reader"},
            {"text": "SMALLER", "read": None, "or": "nobody read"},
        ),
    ],
)
async def test_skip_spreads_to_readers_and_first_joins(
    open_engine: OpenEngine, n: int, skipped: set[str], outputs: dict[str, object]
) -> None:
    """One side of an `if` runs; what reads the other side is skipped too, unless it joins them."""
    engine = await open_engine(CHOICE)

    result = await run(engine, "choice", n=n)

    assert result.outputs == outputs
    found = statuses(engine, result)
    assert {path for path, status in found.items() if status == "skipped"} == skipped
    assert set(found.values()) == {"done", "skipped"}


async def test_scope_is_one_node_to_its_parent(open_engine: OpenEngine) -> None:
    """A nested scope reads names around it, and gives the outputs of its nodes by their ids."""
    engine = await open_engine("""
id: nested
inputs: {text: text}
steps:
  - {id: before, use: text.upper, with: {text: "{{ inputs.text }}"}}
  - id: inner
    graph:
      - id: deep
        steps:
          - {id: a, use: text.upper, with: {text: "{{ before.text }}!"}}
      - {id: b, if: "{{ false }}", use: text.upper, with: {text: x}}
outputs: {a: "{{ inner.deep.a.text }}", b: "{{ inner.b.text | default('none') }}"}
""")

    result = await run(engine, "nested", text="hi")

    assert result.outputs == {"a": "HI!", "b": "none"}
    assert statuses(engine, result) == {
        "before": "done",
        "inner": "done",
        "inner/deep": "done",
        "inner/deep/a": "done",
        "inner/b": "skipped",
    }


async def test_failed_node_fails_the_run_and_cancels_the_rest(open_engine: OpenEngine) -> None:
    """The error names the path and the reason; what still ran is cancelled, and nothing is left."""
    gates = Gates()
    engine = await open_engine(
        """
id: failing
graph:
  - {id: slow, use: gate.pass, with: {name: slow}}
  - id: inner
    steps:
      - {id: wait, use: gate.pass, with: {name: wait}}
      - {id: bad, use: text.fail, with: {text: no luck today}}
  - {id: never, use: text.upper, with: {text: "{{ inner.bad.text }}"}}
""",
        services={Gates: gates},
    )

    started = await engine.start("failing", {})
    await gates.at("slow")[0].wait()
    gates.at("wait")[1].set()
    result = await engine.wait(started)

    assert (result.status, result.error) == ("failed", "inner/bad: no luck today")
    assert statuses(engine, result) == {
        "slow": "cancelled",
        "inner": "failed",
        "inner/wait": "done",
        "inner/bad": "failed",
    }
    assert gates.inside == 0


@pytest.mark.parametrize(
    ("node", "error"),
    [
        ("use: text.break", "a: the tool broke: KeyError: 'no such key'"),
        ("use: text.lie", "a: text.lie: its output is wrong: text: Input should be a valid string"),
        (
            '{use: number.double, with: {value: "{{ inputs.text | length / 2 }}"}}',
            "a: number.double: value: Input should be a valid integer, got a number with a"
            " fractional part",
        ),
        (
            '{use: text.upper, with: {text: "{{ inputs.text | int }}"}}',
            "a: {{ inputs.text | int }}: ",
        ),
        (
            '{use: text.upper, if: "{{ inputs.text }}", with: {text: a}}',
            "a: `if` must be true or",
        ),
        ("{use: gate.pass, with: {name: shut}, timeout: 50ms}", "a: took longer than 0.05 s"),
        ("{steps: [{id: b, use: gate.pass, with: {name: x}}], timeout: 50ms}", "a: took longer"),
    ],
)
async def test_every_way_to_fail_says_where_and_why(
    open_engine: OpenEngine, node: str, error: str
) -> None:
    """A run never hangs and never ends without a reason a person can act on."""
    body = node if node.startswith("{") else "{" + node + "}"
    engine = await open_engine(
        f"id: bad\ninputs: {{text: text}}\nsteps:\n  - {{id: a, {body[1:]}\n"
    )

    result = await run(engine, "bad", text="hey")

    assert result.status == "failed"
    assert (result.error or "").startswith(error)
    assert statuses(engine, result)["a"] == "failed"


async def test_model_text_is_never_rendered_again(open_engine: OpenEngine) -> None:
    """Text that comes out of a tool is data, also when it looks like an expression."""
    engine = await open_engine("""
id: echo
inputs: {text: text}
steps:
  - {id: a, use: text.upper, with: {text: "{{ inputs.text }}"}}
  - {id: b, use: text.upper, with: {text: "<{{ a.text }}>"}}
outputs: {text: "{{ b.text }}"}
""")

    result = await run(engine, "echo", text="{{ run.id }} {% for x in y %}")

    assert result.outputs == {"text": "<{{ RUN.ID }} {% FOR X IN Y %}>"}


NESTING = (
    """
id: outer
inputs: {n: integer}
steps:
  - {id: inner, use: workflow/inner, with: {n: "{{ inputs.n }}"}}
outputs: {value: {type: integer, value: "{{ inner.value }}"}}
""",
    """
id: inner
inputs: {n: integer, more: {type: integer, default: 1}}
steps:
  - {id: twice, use: number.double, with: {value: "{{ inputs.n + inputs.more }}"}}
outputs: {value: {type: integer, value: "{{ twice.value }}"}}
""",
)


async def test_nested_workflow_has_typed_inputs_and_outputs(open_engine: OpenEngine) -> None:
    """A workflow is used like a tool; its nodes stand under the node that uses it."""
    engine = await open_engine(*NESTING)

    result = await run(engine, "outer", n=3)

    assert result.outputs == {"value": 8}
    assert statuses(engine, result) == {"inner": "done", "inner/twice": "done"}


@pytest.mark.parametrize(
    ("given", "gives", "error"),
    [
        ("inputs.any", "twice.value", "inner: the input 'n' of inner: "),
        ("1", "[twice.value]", "inner: the output 'value' of inner: "),
    ],
)
async def test_nested_workflow_checks_what_it_is_given_and_gives(
    open_engine: OpenEngine, given: str, gives: str, error: str
) -> None:
    """A type that holds only where it is written down is none: a model's answer may be anything."""
    engine = await open_engine(
        f"""
id: outer
inputs: {{any: any}}
steps: [{{id: inner, use: workflow/inner, with: {{n: "{{{{ {given} }}}}"}}}}]
""",
        NESTING[1].replace("twice.value", gives),
    )

    result = await run(engine, "outer", any="many")

    assert (result.status, (result.error or "")[: len(error)]) == ("failed", error)


async def test_workflow_that_calls_itself_is_stopped(open_engine: OpenEngine) -> None:
    """The same inputs again would never end; other inputs are fine until it gets too deep."""
    engine = await open_engine(
        """
id: same
inputs: {n: integer}
steps: [{id: again, use: workflow/same, with: {n: "{{ inputs.n }}"}}]
""",
        """
id: deeper
inputs: {n: integer}
steps: [{id: next, use: workflow/deeper, with: {n: "{{ inputs.n + 1 }}"}}]
""",
        """
id: down
inputs: {n: integer}
steps:
  - id: next
    if: "{{ inputs.n > 0 }}"
    use: workflow/down
    with: {n: "{{ inputs.n - 1 }}"}
  - {id: one, use: number.double, with: {value: "{{ inputs.n }}"}}
outputs: {sum: "{{ one.value + (next.sum | default(0)) }}"}
""",
    )

    same, deeper = await run(engine, "same", n=1), await run(engine, "deeper", n=1)

    assert "would run inside itself with the same inputs" in (same.error or "")
    assert "more than 8 levels deep" in (deeper.error or "")
    assert (await run(engine, "down", n=4)).outputs == {"sum": 20}


async def test_cancelled_run_leaves_nothing_running(open_engine: OpenEngine) -> None:
    """`cancel` returns when every tool has ended, and the ledger says so."""
    gates = Gates()
    engine = await open_engine(
        "id: held\nsteps: [{id: a, use: gate.pass, with: {name: a}}]", services={Gates: gates}
    )
    started = await engine.start("held", {})
    await gates.at("a")[0].wait()

    await engine.cancel(started)
    await engine.cancel(started)

    assert gates.inside == 0
    view = engine.run(started)
    assert (view.status, [step.status for step in view.steps]) == ("cancelled", ["cancelled"])
    assert (await engine.wait(started)).status == "cancelled"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "the input 'n' is missing"),
        ({"n": "many"}, "the input 'n' of outer: Input should be a valid integer"),
        ({"n": 1, "m": 2}, "there is no input 'm'"),
    ],
)
async def test_wrong_inputs_start_nothing(
    open_engine: OpenEngine, inputs: dict[str, object], message: str
) -> None:
    """What is wrong is said to the caller; the list of runs stays clean."""
    engine = await open_engine(*NESTING)

    with pytest.raises(InvalidInputs, match=message):
        await engine.start("outer", inputs)

    assert engine.runs() == []


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ("nodes: 2", "c: limits.nodes is 2, and this would be 3"),
        ("tokens: 20", "b: limits.tokens is 20, and this would be 30"),
        ("wall: 100ms", "limits.wall is 0.1 s, and they are over"),
    ],
)
async def test_limits_end_a_run_that_goes_beyond(
    open_engine: OpenEngine, limits: str, error: str
) -> None:
    """A run cannot use more than its document allows."""
    engine = await open_engine(
        f"""
id: limited
limits: {{{limits}}}
steps:
  - {{id: a, use: llm, with: {{text: hello}}}}
  - {{id: b, use: llm, with: {{text: hello}}}}
  - {{id: c, use: gate.pass, with: {{name: c}}}}
""",
        services={Script: Script("one", "two")},
    )

    result = await run(engine, "limited")

    assert (result.status, result.error) == ("failed", error)


async def test_two_hundred_nodes_fan_out_at_once(open_engine: OpenEngine) -> None:
    """All that can run does run at the same time; nothing waits for a neighbour."""
    gates = Gates()
    nodes = "\n".join(f"  - {{id: n{i}, use: gate.pass, with: {{name: n{i}}}}}" for i in range(200))
    reads = " + ".join(f"(n{i}.text | length)" for i in range(200))
    engine = await open_engine(
        f'id: fan\ngraph:\n{nodes}\noutputs: {{sum: "{{{{ {reads} }}}}"}}', services={Gates: gates}
    )

    started = await engine.start("fan", {})
    await asyncio.gather(*(gates.at(f"n{i}")[0].wait() for i in range(200)))
    for i in range(200):
        gates.at(f"n{i}")[1].set()
    result = await engine.wait(started)

    assert gates.most_inside == 200
    assert result.outputs == {"sum": 10 * 2 + 90 * 3 + 100 * 4}


async def test_workflows_that_multiply_meet_the_limit(open_engine: OpenEngine) -> None:
    """A document of a few lines must not fill the memory, though it never calls a tool."""
    uses = "\n".join(
        f'  - {{id: u{i}, use: workflow/hydra, with: {{n: "{{{{ inputs.n * 10 + {i} }}}}"}}}}'
        for i in range(10)
    )
    engine = await open_engine(f"id: hydra\ninputs: {{n: integer}}\ngraph:\n{uses}\n")

    result = await run(engine, "hydra", n=1)

    assert "limits.nodes is 1000, and this would be 1001" in (result.error or "")
    assert len(engine.run(result.run).graph.nodes) == 10


@pytest.mark.parametrize("messages", ["inputs.any", "[inputs.any]", "{'role': inputs.any}"])
async def test_messages_of_another_form_fail_the_node(
    open_engine: OpenEngine, messages: str
) -> None:
    """What an expression gives is checked when it is there; a run never just stops."""
    engine = await open_engine(f"""
id: odd
inputs: {{any: any}}
steps: [{{id: a, use: llm, with: {{messages: "{{{{ {messages} }}}}"}}}}]
""")

    result = await run(engine, "odd", any="hello")

    assert "a list of messages" in (result.error or "")
    assert statuses(engine, result) == {"a": "failed"}
