"""`plan.run`: workflows that were written while their run went on."""

import json
from pathlib import Path

import pytest

from pipecatapp.workflow import Engine, NotGranted
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates

OUTER = """
id: outer
inputs: {plan: text, more: {type: text, default: ""}}
steps:
  - id: work
    use: plan.run
    with: {document: "{{ inputs.plan }}", allow: [pure, read], inputs: {word: hello}, max_nodes: 3}
outputs: {steps: "{{ work.steps }}", outputs: "{{ work.outputs }}"}
"""
PLAN = """
id: made
inputs: {word: text}
steps:
  - id: group
    steps:
      - {id: loud, use: text.upper, with: {text: "{{ inputs.word }}"}}
outputs: {said: "{{ group.loud.text }}"}
"""
SENDS = PLAN.replace("text.upper, with: {text", "gate.send, with: {name")
TWICE = """
id: twice
inputs: {plans: list of text}
steps:
  - id: rounds
    for: {each: "{{ inputs.plans }}", as: plan}
    steps:
      - {id: work, use: plan.run, with: {document: "{{ plan }}", allow: [pure, read, llm]}}
"""


async def ended(engine: Engine, workflow: str, **inputs: object) -> tuple[str, dict[str, object]]:
    run = await engine.start(workflow, inputs)
    result = await engine.wait(run)
    assert result.error is None
    return run, result.outputs


async def test_steps_of_a_plan_are_steps_of_the_run_and_nodes_of_its_graph(
    open_engine: OpenEngine,
) -> None:
    """Each is seen, counted and cached like any other."""
    engine = await open_engine(OUTER)

    run, outputs = await ended(engine, "outer", plan=PLAN)

    assert outputs == {"steps": {"group/loud": {"text": "HELLO"}}, "outputs": {"said": "HELLO"}}
    view = engine.run(run)
    assert [step.path for step in view.steps] == ["work", "work/group", "work/group/loud"]
    nodes = {node.path: node.parent for node in view.graph.nodes}
    assert nodes == {"work": "", "work/group": "work", "work/group/loud": "work/group"}


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (SENDS, "the effect `external`, which is not granted"),
        (PLAN.replace("text.upper", "text.lower"), "there is no tool 'text.lower'"),
        ("id: made\nsteps:\n" + "".join(
            f"  - {{id: n{n}, use: text.upper, with: {{text: x}}}}\n" for n in range(4)
        ), "it has 4 nodes, and 3 are allowed"),
        (PLAN.replace("word", "other"), "there is no input 'word'"),
        ("[", "the plan cannot run"),
    ],
)  # fmt: skip
async def test_plan_outside_its_bounds_fails_before_anything_of_it_runs(
    open_engine: OpenEngine, plan: str, reason: str
) -> None:
    """A plan never widens what its run may do."""
    engine = await open_engine(OUTER)

    result = await engine.wait(await engine.start("outer", {"plan": plan}))

    assert result.status == "failed"
    assert reason in str(result.error)
    assert [step.path for step in engine.run(result.run).steps] == ["work"]


async def test_effects_of_a_plan_need_a_grant_before_the_run_starts(
    open_engine: OpenEngine,
) -> None:
    """Whoever grants less learns it at once, though the plan is not written yet."""
    engine = await open_engine(OUTER)

    with pytest.raises(NotGranted, match="`read`"):
        await engine.start("outer", {"plan": PLAN}, grants=["pure"])


async def test_same_step_of_a_later_plan_is_not_run_again(open_engine: OpenEngine) -> None:
    """Also one that only reads, and one that asks a model; a changed one is run."""
    gates = Gates()
    for name in ("a", "b", "c"):
        gates.at(name)[1].set()
    engine = await open_engine(TWICE, services={Gates: gates})

    def plan(second: str) -> str:
        nodes = [{"id": "one", "use": "gate.pass", "with": {"name": "a"}},
                 {"id": "two", "use": "gate.pass", "with": {"name": second}}]  # fmt: skip
        return json.dumps({"id": "made", "steps": nodes})

    run, _ = await ended(engine, "twice", plans=[plan("b"), plan("c")])

    steps = {step.path: step for step in engine.run(run).steps}
    assert steps["rounds[1]/work/one"].facts["cached"] == {
        "run": run, "path": "rounds[0]/work/one"
    }  # fmt: skip
    assert "cached" not in steps["rounds[1]/work/two"].facts


async def test_resumed_run_goes_on_with_the_plan_that_it_began_with(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """The plan is kept with its step, so later documents do not change it."""
    gates = Gates()
    engine = await open_engine(OUTER, services={Gates: gates})
    plan = PLAN.replace("use: text.upper, with: {text:", "use: gate.pass, with: {name:")
    run = await engine.start("outer", {"plan": plan.replace("{{ group.loud.text }}", "x")})
    await gates.at("hello")[0].wait()
    await engine.__aexit__()
    gates.at("hello")[1].set()

    async with Engine(
        engine.ledger,
        tools=engine.tools.values(),
        services={Gates: gates},
        roles={"default": "auto"},
    ) as later:
        assert await later.resume_unfinished() == [run]
        result = await later.wait(run)

    assert result.outputs["steps"] == {"group/loud": {"text": "hello"}}
    attempts = {step.path: step.attempt for step in later.run(run).steps}
    assert attempts == {"work": 1, "work/group": 1, "work/group/loud": 2}
