"""Outputs that are known already: the cache, forks with edited graphs, pins, and why."""

from pathlib import Path
from typing import Any

import pytest

from pipecatapp.workflow import (
    Context,
    Effect,
    Engine,
    InvalidInputs,
    RunResult,
    UnknownStep,
    load_document,
    tool,
)
from pipecatapp.workflow.tool import EFFECTS
from tests.integration.workflow.test_questions import waiting
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates, Script, Text

CHAIN = """
id: chain
inputs: {text: text}
steps:
  - {id: draft, use: llm, with: {text: "Write {{ inputs.text }}"}}
  - {id: loud, use: text.upper, with: {text: "{{ draft.text }}"}}
  - {id: sent, use: log.append, with: {line: "{{ loud.text }}"}}
  - {id: last, use: text.upper, with: {text: "said {{ sent.text }}"}}
outputs: {text: "{{ last.text }}"}
"""


async def start(engine: Engine, name: str, **inputs: Any) -> RunResult:
    return await engine.wait(await engine.start(name, inputs))


async def fork(engine: Engine, run: str, document: str = "", **more: Any) -> RunResult:
    """Fork a run, with an edited document when one is given."""
    plan = engine.plan(load_document(document, file="edited.yaml")) if document else None
    return await engine.wait(await engine.fork(run, plan=plan, **more))


def called(engine: Engine, result: RunResult) -> dict[str, str]:
    """What was really called, and why though a run before had it."""
    events = engine.ledger.read.all_events(result.run, after=0)
    return {
        e.path: str(e.data.get("why", "")) for e in events if e.type == "node.running" and e.path
    }


async def test_pure_outputs_are_shared_by_all_runs(open_engine: OpenEngine) -> None:
    """The same question to a tool that only computes needs no second answer."""
    engine: Engine = await open_engine("""
id: pure
inputs: {n: integer}
steps:
  - {id: a, use: number.double, with: {value: "{{ inputs.n }}"}}
  - {id: b, use: number.double, with: {value: "{{ a.value }}"}}
outputs: {b: "{{ b.value }}"}
""")

    first = await start(engine, "pure", n=1)
    same = await start(engine, "pure", n=1)
    other = await start(engine, "pure", n=2)

    assert [one.outputs["b"] for one in (first, same, other)] == [4, 4, 8]
    assert list(called(engine, first)) == ["a", "b"]
    assert called(engine, same) == {}
    assert list(called(engine, other)) == ["b"]
    step = engine.run(other.run).steps[0]
    assert step.facts["cached"] == {"run": first.run, "path": "b"}
    assert (step.status, step.attempt) == ("done", 0)


async def test_nodes_count_the_same_whether_called_or_taken_over(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """A limit that a second run passes because of what the first one did is no limit."""
    engine: Engine = await open_engine("""
id: pure
limits: {nodes: 2}
inputs: {n: integer, more: {type: boolean, default: false}}
steps:
  - {id: a, use: number.double, with: {value: "{{ inputs.n }}"}}
  - {id: b, use: number.double, with: {value: "{{ a.value }}"}}
  - {id: c, if: "{{ inputs.more }}", use: number.double, with: {value: "{{ a.value }}"}}
outputs: {b: "{{ b.value }}"}
""")
    first = await start(engine, "pure", n=1)
    taken = await start(engine, "pure", n=1)
    over = await start(engine, "pure", n=1, more=True)

    assert called(engine, taken) == {}
    assert [first.status, taken.status] == ["done", "done"]
    assert over.error == "c: limits.nodes is 2, and this would be 3"
    assert [engine.ledger.read.spent(one.run).nodes for one in (first, taken)] == [2, 2]


async def test_models_are_asked_again_unless_they_cannot_vary(open_engine: OpenEngine) -> None:
    """A sampled answer belongs to its run; one at temperature 0 is the same for all."""
    script = Script("one", "two", "cold")
    engine: Engine = await open_engine(
        """
id: models
steps:
  - {id: warm, use: llm, with: {text: x}}
""",
        """
id: cold
steps:
  - {id: cold, use: llm, with: {text: x, temperature: 0}}
""",
        services={Script: script},
    )

    for name in ("models", "models", "cold", "cold"):
        await start(engine, name)

    assert len(script.asked) == 3


@pytest.mark.parametrize("effect", sorted(EFFECTS - {"pure", "llm"}))
async def test_what_looks_at_the_world_or_changes_it_is_done_in_each_run(
    open_engine: OpenEngine, effect: Effect
) -> None:
    """Yesterday's weather is no weather."""
    calls: list[str] = []

    @tool("some.thing", effect=effect)
    async def thing(ctx: Context) -> Text:
        """Do something."""
        calls.append(ctx.run)
        return Text(text="x")

    engine: Engine = await open_engine()
    engine.learn([thing])
    plan = engine.plan(load_document("id: w\nsteps: [{id: a, use: some.thing}]", file="w.yaml"))
    ended = [await engine.wait(await engine.start(plan, {})) for _ in range(2)]

    assert [run.status for run in ended] == ["done", "done"]
    assert calls == [run.run for run in ended]


@pytest.mark.proves("003-08")
async def test_fork_of_an_unchanged_run_calls_nothing(open_engine: OpenEngine) -> None:
    """Nothing is asked, sent or computed a second time."""
    engine: Engine = await open_engine(CHAIN, services={Script: Script("hello")})
    first = await start(engine, "chain", text="x")

    again = await fork(engine, first.run)

    assert again.outputs == first.outputs == {"text": "SAID HELLO"}
    assert called(engine, again) == {}
    assert engine.run(again.run).forked == first.run


@pytest.mark.proves("003-08")
async def test_change_calls_what_follows_from_it_and_says_why(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """One edited node: it and what really changes with it; what comes out the same stops there."""
    engine: Engine = await open_engine(CHAIN, services={Script: Script("hello", "HELLO", "bye")})
    first = await start(engine, "chain", text="x")

    prompt = CHAIN.replace("Write {{", "Please write {{")
    same_output = await fork(engine, first.run, prompt)
    other_output = await fork(engine, first.run, prompt.replace("Please", "Now"))

    assert called(engine, same_output) == {
        "draft": "changed: input messages",
        "loud": "changed: input text",
    }
    assert other_output.outputs == {"text": "SAID BYE"}
    assert called(engine, other_output) == {
        "draft": "changed: input messages",
        "loud": "changed: input text",
        "last": "changed: input text",
        "sent": "changed: input line",
    }
    assert (tmp_path / "log").read_text() == "HELLO\nBYE\n"


async def test_fork_from_a_node_does_it_and_all_inside_anew(open_engine: OpenEngine) -> None:
    """A person wants another draft, though nothing has changed."""
    engine: Engine = await open_engine(CHAIN, services={Script: Script("hello", "other")})
    first = await start(engine, "chain", text="x")

    again = await fork(engine, first.run, at="draft")

    assert again.outputs == {"text": "SAID OTHER"}
    assert called(engine, again)["draft"] == "run again from draft"
    with pytest.raises(UnknownStep, match="has no step 'drafd'"):
        await engine.fork(first.run, at="drafd")


LOOP = """
id: loop
steps:
  - id: fix
    for: [a, b, c]
    steps:
      - {id: say, use: llm, with: {text: "{{ item }} {{ prev.say.text or '' }}"}}
      - {id: sent, use: log.append, with: {line: "{{ say.text }}"}}
outputs: {all: "{{ fix.all | map(attribute='sent') | map(attribute='text') }}"}
"""


async def test_fork_from_inside_a_loop_keeps_the_visits_before(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """From the second visit on it is done anew, with the edited graph; the first one stands."""
    script = Script("1", "2", "3", "two", "three")
    engine: Engine = await open_engine(LOOP, services={Script: script})
    first = await start(engine, "loop")

    again = await fork(engine, first.run, LOOP.replace("id: loop", "id: loop "), at="fix[1]")

    assert first.outputs == {"all": ["1", "2", "3"]}
    assert again.outputs == {"all": ["1", "two", "three"]}
    ran = called(engine, again)
    assert "fix[0]/say" not in ran
    assert ran["fix[1]/say"] == ran["fix[1]/sent"] == "run again from fix[1]"
    assert ran["fix[2]/say"] == "changed: input messages"
    assert (tmp_path / "log").read_text().split() == ["1", "2", "3", "two", "three"]


async def test_failed_run_goes_on_where_its_mended_graph_differs(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """What was done before the failure is not done again; the failed step is."""
    broken = CHAIN.replace(
        'use: text.upper, with: {text: "said', 'use: text.fail, with: {text: "said'
    )
    engine: Engine = await open_engine(broken, services={Script: Script("hello")})
    first = await start(engine, "chain", text="x")
    assert first.error == "last: said HELLO"

    mended = await fork(engine, first.run, CHAIN)

    assert mended.outputs == {"text": "SAID HELLO"}
    assert called(engine, mended) == {"last": "changed: tool"}
    assert (tmp_path / "log").read_text() == "HELLO\n"


async def test_fork_with_other_inputs(open_engine: OpenEngine) -> None:
    """The same workflow with another input runs what reads it; a wrong input starts nothing."""
    engine: Engine = await open_engine(CHAIN, services={Script: Script("hello", "bye")})
    first = await start(engine, "chain", text="x")

    again = await fork(engine, first.run, inputs={"text": "y"})

    assert again.outputs == {"text": "SAID BYE"}
    with pytest.raises(InvalidInputs, match="the input 'text' is missing"):
        await engine.fork(first.run, inputs={})


async def test_answers_of_people_are_taken_over(open_engine: OpenEngine) -> None:
    """Nobody is asked the same question twice because a later step was mended."""
    engine: Engine = await open_engine("""
id: asked
steps:
  - {id: sure, use: person.ask, with: {text: "Sure?"}}
  - {id: after, use: text.upper, with: {text: "{{ sure.answer }}"}}
outputs: {text: "{{ after.text }}"}
""")
    run = await engine.start("asked", {})
    await waiting(engine, run)
    await engine.answer(run, "sure", "yes", by="anna")
    await engine.wait(run)

    again = await fork(engine, run)

    assert again.outputs == {"text": "YES"}
    assert called(engine, again) == {}


async def test_fork_survives_a_restart(open_engine: OpenEngine) -> None:
    """What it takes over, and from where it is new, is kept with the run."""
    gates, script = Gates(), Script("hello", "other")
    document = CHAIN.replace(
        "  - {id: last", "  - {id: hold, use: gate.pass, with: {name: hold}}\n  - {id: last"
    )
    first: Engine = await open_engine(document, services={Gates: gates, Script: script})
    gates.at("hold")[1].set()
    whole = await start(first, "chain", text="x")
    closed = Gates()
    second_services = {Gates: closed, Script: script}
    await first.__aexit__()
    second: Engine = await open_engine(document, services=second_services)
    run = await second.fork(whole.run, at="hold")
    await closed.at("hold")[0].wait()
    await second.__aexit__()

    third_gates = Gates()
    third_gates.at("hold")[1].set()
    third: Engine = await open_engine(document, services={Gates: third_gates, Script: script})
    await third.resume_unfinished()

    assert (await third.wait(run)).outputs == {"text": "SAID HELLO"}
    assert len(script.asked) == 1


async def test_never_is_never_taken_from_the_cache(open_engine: OpenEngine) -> None:
    """What only seems to depend on its input says so in its document."""
    engine: Engine = await open_engine("""
id: never
steps: [{id: a, use: number.double, with: {value: 1}, cache: never}]
""")

    runs = [await start(engine, "never"), await start(engine, "never")]

    assert [list(called(engine, run)) for run in runs] == [["a"], ["a"]]


async def test_pinned_output_stands_instead_of_the_call(open_engine: OpenEngine) -> None:
    """A person has decided what comes out here; nothing is asked, whatever goes in."""
    document = CHAIN.replace("use: llm,", "use: llm, cache: pin, pinned: {text: fixed},")
    engine: Engine = await open_engine(document, services={Script: Script()})

    result = await start(engine, "chain", text="anything")

    assert result.outputs == {"text": "SAID FIXED"}
    assert engine.run(result.run).steps[0].facts["cached"] == {"run": "", "path": "pinned"}
