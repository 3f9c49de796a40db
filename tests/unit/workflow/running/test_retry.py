"""`retry` of what is made of several calls: agents, scopes, workflows, visits of loops."""

import asyncio

import pytest
from pydantic import BaseModel

from pipecatapp.workflow import (
    Context,
    Engine,
    InvalidDocument,
    RunResult,
    ToolFailed,
    load_document,
    tool,
)
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Script, Stubborn

SCOPE = """
id: hard
steps:
  - id: fix
    retry: {times: 2, wait: 1ms}
    steps:
      - {id: before, use: text.upper, with: {text: x}}
      - {id: a, use: text.stubborn}
outputs: {text: "{{ fix.a.text }}"}
"""


class Nothing(BaseModel):
    """What the tools of these tests give."""


async def ended(engine: Engine, workflow: str) -> RunResult:
    return await engine.wait(await engine.start(workflow, {}))


def statuses(engine: Engine, run: str) -> dict[str, str]:
    return {step.path: step.status for step in engine.run(run).steps}


@pytest.mark.parametrize("fails", [0, 2, 3])
async def test_scope_begins_anew_as_a_whole(open_engine: OpenEngine, fails: int) -> None:
    """What was done in the failed try is done again, each try under a name of its own."""
    engine = await open_engine(SCOPE, services={Stubborn: Stubborn(fails)})

    result = await ended(engine, "hard")

    tries = ["fix", "fix#2", "fix#3"][: fails + 1]
    seen = {path: said for path, said in statuses(engine, result.run).items() if "/" not in path}
    assert list(seen) == tries
    assert set(statuses(engine, result.run)) == {
        *tries, *(f"{one}/{name}" for one in tries for name in ("before", "a"))
    }  # fmt: skip
    if fails < 3:
        assert (result.outputs, seen[tries[-1]]) == ({"text": "at last"}, "done")
    else:
        assert result.error == "fix#3/a: not now"


async def test_visit_of_a_loop_begins_anew_alone(open_engine: OpenEngine) -> None:
    """One item that fails at first costs nothing of the others."""
    engine = await open_engine(
        """
id: items
steps:
  - id: each
    for: [1, 2]
    retry: 1
    steps: [{id: a, use: text.stubborn}, {id: b, use: number.double, with: {value: "{{ item }}"}}]
outputs: {all: "{{ each.all | map(attribute='b') | map(attribute='value') }}"}
""",
        services={Stubborn: Stubborn(1)},
    )

    result = await ended(engine, "items")

    assert result.outputs == {"all": [2, 4]}
    seen = {path: said for path, said in statuses(engine, result.run).items() if "/" not in path}
    assert seen == {"each": "done", "each[0]": "failed", "each[0]#2": "done", "each[1]": "done"}


async def test_agent_begins_anew_and_is_asked_everything_again(open_engine: OpenEngine) -> None:
    """A small model that loses itself in tools is worth a second try; its tokens count."""
    script = Script([("text_upper", {"text": "a"})], "done")
    engine = await open_engine(
        """
id: small
steps:
  - id: reply
    use: agent
    retry: 1
    with: {text: hello, tools: [text.upper], max_turns: 1}
outputs: {text: "{{ reply.answer }}"}
""",
        services={Script: script},
    )

    result = await ended(engine, "small")

    assert result.outputs == {"text": "done"}
    assert script.asked[0] == script.asked[1]
    assert statuses(engine, result.run) == {
        "reply": "failed", "reply/turn[1]/llm": "done", "reply/turn[1]/call[0]": "done",
        "reply#2": "done", "reply#2/turn[1]/llm": "done",
    }  # fmt: skip
    assert engine.run(result.run).tokens.prompt == 20


async def test_workflow_begins_anew_then_its_on_error_holds(open_engine: OpenEngine) -> None:
    """Trying again comes before giving up."""
    engine = await open_engine(
        """
id: outer
graph:
  - {id: inner, use: workflow/hard, retry: 1, on_error: continue}
  - {id: after, use: text.upper, with: {text: "{{ first(inner.text, 'none') }}"}}
outputs: {text: "{{ after.text }}"}
""",
        SCOPE.replace("    retry: {times: 2, wait: 1ms}\n", ""),
        services={Stubborn: Stubborn(9)},
    )

    result = await ended(engine, "outer")

    assert result.outputs == {"text": "NONE"}
    assert [path for path in statuses(engine, result.run) if "/" not in path] == [
        "inner", "inner#2", "after"
    ]  # fmt: skip


async def test_tries_and_limits_count_on_after_a_restart(open_engine: OpenEngine) -> None:
    """A service that restarts every minute must not try for ever."""
    calls: list[str] = []
    held = asyncio.Event()

    @tool("try.held", effect="read")
    async def hold(ctx: Context) -> Nothing:
        """Fail, but the second time hang."""
        calls.append(ctx.path)
        if len(calls) == 2:
            held.set()
            await asyncio.Event().wait()
        raise ToolFailed("not now")

    document = """
id: held
limits: {nodes: 8}
steps:
  - {id: fix, retry: {times: TIMES, wait: 1ms}, steps: [{id: a, use: try.held}]}
"""
    first = await open_engine()
    runs = []
    for times in ("2", "50"):
        calls.clear()
        held.clear()
        first.learn([hold])
        plan = first.plan(load_document(document.replace("TIMES", times), file="test.yaml"))
        runs.append(await first.start(plan, {}))
        await held.wait()
    await first.__aexit__()
    calls.append("restart")
    second = await open_engine()
    second.learn([hold])
    assert await second.resume_unfinished() == runs
    ends = [await second.wait(run) for run in runs]

    assert ends[0].error == "fix#3/a: not now"
    assert list(statuses(second, runs[0])) == [
        "fix", "fix/a", "fix#2", "fix#2/a", "fix#3", "fix#3/a"
    ]  # fmt: skip
    assert "limits.nodes is 8" in str(ends[1].error)


@pytest.mark.parametrize(
    "inner",
    [
        "steps: [{id: a, use: log.append, with: {line: x}}]",
        "use: agent, with: {text: x, tools: [log.append]}",
        "use: workflow/sends",
    ],
)
async def test_what_may_have_taken_effect_is_never_begun_anew(
    open_engine: OpenEngine, inner: str
) -> None:
    """A message that was sent is not sent again because something after it failed."""
    engine = await open_engine("id: sends\nsteps: [{id: deep, use: log.append, with: {line: x}}]")
    text = f"id: twice\nsteps:\n  - {{id: x, retry: 1, {inner}}}"
    workflow = load_document(text, file="test.yaml")

    with pytest.raises(InvalidDocument, match="`retry` is unsafe here: 'x") as caught:
        engine.plan(workflow)
    assert caught.value.diagnostics[0].line == 3
