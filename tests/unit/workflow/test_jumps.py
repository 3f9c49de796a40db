"""Jumps: goto back and forward among siblings, and where a failure leads."""

import pytest

from pipecatapp.workflow import Engine
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.test_loops import starts
from tests.unit.workflow.test_scheduler import run, statuses
from tests.unit.workflow.tools import Gates, Script, Stubborn

REVIEW = """
id: review
steps:
  - {id: before, use: text.upper, with: {text: x}}
  - {id: draft, use: llm, with: {text: "Write. {{ prev.judge.text or '' }} {{ loop.index }}"}}
  - {id: judge, use: llm, with: {text: "Judge {{ draft.text }}"}}
  - {id: again, goto: draft, if: "{{ judge.text != 'good' }}", max: 2, on_max: ON_MAX}
  - {id: after, use: text.upper, with: {text: "{{ draft.text }}"}}
outputs: {text: "{{ after.text }}"}
"""


def review(on_max: str = "fail") -> str:
    return REVIEW.replace("ON_MAX", on_max)


@pytest.mark.proves("001-34")
async def test_goto_back_visits_again_and_counts_the_visits(open_engine: OpenEngine) -> None:
    """What lies between is visited once more, sees what the pass before gave, and has its path."""
    script = Script("d1", "bad", "d2", "good")
    engine = await open_engine(review(), services={Script: script})

    result = await run(engine, "review")

    assert result.outputs == {"text": "D2"}
    assert [m["messages"][-1]["content"] for m in script.asked] == [
        "Write.  0",
        "Judge d1",
        "Write. bad 1",
        "Judge d2",
    ]
    found = statuses(engine, result)
    assert list(found) == [
        *("before", "draft", "judge", "again"),
        *("draft#2", "judge#2", "again#2", "after"),
    ]
    assert (found["again"], found["again#2"]) == ("done", "skipped")
    assert [s.node for s in engine.run(result.run).steps][4:6] == ["draft", "judge"]


@pytest.mark.parametrize(
    ("on_max", "status", "text", "error"),
    [
        ("continue", "done", "D3", None),
        ("fail", "failed", None, "again#3: it has jumped back 2 times, which is its `max`"),
    ],
)
async def test_max_ends_the_jumping(
    open_engine: OpenEngine, on_max: str, status: str, text: str | None, error: str | None
) -> None:
    """Two models that never agree do not talk for ever."""
    script = Script("d1", "bad", "d2", "bad", "d3", "bad", "d4", "good")
    engine = await open_engine(review(on_max), services={Script: script})

    result = await run(engine, "review")

    assert (result.status, result.outputs.get("text"), result.error) == (status, text, error)


@pytest.mark.proves("001-34")
@pytest.mark.parametrize(("n", "ran"), [(1, ["a", "go", "d"]), (5, ["a", "b", "c", "d"])])
async def test_goto_forward_passes_over_what_lies_between(
    open_engine: OpenEngine, n: int, ran: list[str]
) -> None:
    """By a result, some steps are left out; what would have read them is skipped with them."""
    engine = await open_engine("""
id: forward
inputs: {n: integer}
steps:
  - {id: a, use: number.double, with: {value: "{{ inputs.n }}"}}
  - {id: go, goto: d, if: "{{ a.value < 4 }}"}
  - {id: b, use: number.double, with: {value: 2}}
  - {id: c, use: number.double, with: {value: 3}}
  - {id: d, use: number.double, with: {value: "{{ first(c.value, a.value) }}"}}
outputs: {d: "{{ d.value }}", b: "{{ b.value }}"}
""")

    result = await run(engine, "forward", n=n)

    assert starts(engine, result) == ran
    assert result.outputs == ({"d": 4, "b": None} if n == 1 else {"d": 12, "b": 4})
    passed = [s.error for s in engine.run(result.run).steps if s.path == "b"]
    assert passed == (["'go' leads past it"] if n == 1 else [None])


async def test_jump_back_over_a_loop_and_an_else(open_engine: OpenEngine) -> None:
    """Whatever stands between is visited anew as a whole: branches, scopes, loops."""
    engine = await open_engine("""
id: over
steps:
  - {id: start, use: number.double, with: {value: "{{ loop.index }}"}}
  - id: odd
    if: "{{ start.value > 1 }}"
    use: text.upper
    with: {text: late}
    else: [{id: early, use: text.upper, with: {text: early}}]
  - {id: each, use: number.double, for: [1, 2], with: {value: "{{ item + start.value }}"}}
  - id: scope
    steps: [{id: said, use: text.upper, with: {text: "{{ first(odd.text, early.text) }}"}}]
  - {id: back, goto: start, if: "{{ loop.first }}", max: 1}
outputs: {said: "{{ scope.said.text }}", last: "{{ each.last.value }}"}
""")

    result = await run(engine, "over")

    assert result.outputs == {"said": "LATE", "last": 8}
    found = statuses(engine, result)
    assert (found["early"], found["early#2"], found["odd"], found["odd#2"]) == (
        *("done", "skipped"),
        *("skipped", "done"),
    )
    assert found["each#2[1]"] == found["scope#2/said"] == "done"


@pytest.mark.parametrize("times", [0, 1, 2, 3])
async def test_retry_calls_a_tool_again(open_engine: OpenEngine, times: int) -> None:
    """A tool that fails twice needs two further tries; each is counted and told."""
    stubborn = Stubborn(2)
    retry = f", retry: {{times: {times}, wait: 1ms}}" if times else ""
    engine = await open_engine(
        f"id: hard\nsteps: [{{id: a, use: text.stubborn{retry}}}]", services={Stubborn: stubborn}
    )

    result = await run(engine, "hard")

    events = [event.type for event in engine.ledger.read.all_events(result.run, after=0)]
    tries = min(times + 1, 3)
    assert events.count("node.queued") == tries - 1
    assert stubborn.calls == engine.run(result.run).steps[0].attempt == tries
    assert (result.status, result.error) == (
        ("done", None) if times >= 2 else ("failed", "a: not now")
    )


async def test_retry_counts_what_failed_tries_cost(open_engine: OpenEngine) -> None:
    """A model that answers in a wrong form costs its tokens each time."""
    script = Script("no", "no", '{"fine": true}')
    engine = await open_engine(
        """
id: typed
limits: {tokens: 100}
steps: [{id: a, use: llm, with: {text: x}, returns: {fine: boolean}, retry: 5}]
outputs: {fine: "{{ a.fine }}"}
""",
        services={Script: script},
    )

    result = await run(engine, "typed")

    assert result.outputs == {"fine": True}
    tokens = engine.run(result.run).tokens
    assert (tokens.prompt, tokens.completion) == (30, 15)


async def test_retry_tries_again_what_takes_too_long(open_engine: OpenEngine) -> None:
    """A call that hangs once is no reason to give up."""
    gates = Gates()
    engine = await open_engine(
        """
id: slow
steps: [{id: a, use: gate.pass, with: {name: a}, timeout: 100ms, retry: 1}]
""",
        services={Gates: gates},
    )

    result = await run(engine, "slow")

    assert result.error == "a: took longer than 0.1 s"
    assert engine.run(result.run).steps[0].attempt == 2
    assert gates.inside == 0


async def continued(engine: Engine) -> tuple[dict[str, str], object]:
    result = await run(engine, "on")
    assert result.status == "done", result.error
    return statuses(engine, result), result.outputs


async def test_on_error_continue_leaves_a_gap(open_engine: OpenEngine) -> None:
    """What can be done without is missing, and only its readers are skipped."""
    engine = await open_engine("""
id: on
graph:
  - {id: a, use: text.fail, with: {text: broken}, on_error: continue}
  - {id: b, use: text.upper, with: {text: "{{ a.text }}"}}
  - {id: c, use: text.upper, with: {text: "{{ a.text | default('none') }}"}}
outputs: {b: "{{ b.text }}", c: "{{ c.text }}"}
""")

    found, outputs = await continued(engine)

    assert outputs == {"b": None, "c": "NONE"}
    assert found == {"a": "failed", "b": "skipped", "c": "done"}


async def test_on_error_of_a_scope_ends_all_inside(open_engine: OpenEngine) -> None:
    """A scope fails as one: what still ran in it is stopped before anything goes on."""
    gates = Gates()
    engine = await open_engine(
        """
id: on
steps:
  - id: risky
    on_error: continue
    graph:
      - {id: hang, use: gate.pass, with: {name: hang}}
      - {id: deep, steps: [{id: bad, use: text.fail, with: {text: broken}}]}
  - {id: after, use: text.upper, with: {text: "{{ risky.deep.bad.text | default('gone') }}"}}
outputs: {text: "{{ after.text }}"}
""",
        services={Gates: gates},
    )

    found, outputs = await continued(engine)

    assert outputs == {"text": "GONE"}
    assert gates.inside == 0
    assert found == {
        "risky": "failed",
        "risky/hang": "cancelled",
        "risky/deep": "failed",
        "risky/deep/bad": "failed",
        "after": "done",
    }


async def test_on_error_of_a_loop_is_for_each_visit(open_engine: OpenEngine) -> None:
    """One bad item does not spoil the others; its place holds null."""
    engine = await open_engine("""
id: on
steps:
  - id: each
    for: [x, bad, y]
    on_error: continue
    steps:
      - {id: ok, if: "{{ item != 'bad' }}", use: text.upper, with: {text: "{{ item }}"}}
      - {id: not_ok, if: "{{ item == 'bad' }}", use: text.fail, with: {text: "{{ item }}"}}
outputs: {all: "{{ each.all }}", count: "{{ each.count }}"}
""")

    found, outputs = await continued(engine)

    assert outputs == {"all": [{"ok": {"text": "X"}}, None, {"ok": {"text": "Y"}}], "count": 3}
    assert (found["each[1]"], found["each[1]/not_ok"], found["each"]) == (
        *("failed", "failed"),
        "done",
    )


async def test_on_error_goto_leads_on_or_back(open_engine: OpenEngine) -> None:
    """A failure goes to the step that can mend it, and is tried again a stated number of times."""
    stubborn = Stubborn(1)
    engine = await open_engine(
        """
id: on
steps:
  - {id: start, use: number.double, with: {value: 1}}
  - {id: try, use: text.stubborn, on_error: {goto: start, max: 1}}
  - {id: risky, use: text.fail, with: {text: x}, on_error: {goto: mend}}
  - {id: never, use: text.upper, with: {text: never}}
  - {id: mend, use: text.upper, with: {text: "{{ never.text | default('mended') }}"}}
outputs: {text: "{{ mend.text }}"}
""",
        services={Stubborn: stubborn},
    )

    found, outputs = await continued(engine)

    assert outputs == {"text": "MENDED"}
    assert found == {
        "start": "done",
        "try": "failed",
        "start#2": "done",
        "try#2": "done",
        "risky": "failed",
        "never": "skipped",
        "mend": "done",
    }


async def test_failure_beyond_the_jumps_is_a_failure(open_engine: OpenEngine) -> None:
    """The way back is no way to fail for ever."""
    engine = await open_engine("""
id: on
steps:
  - {id: start, use: number.double, with: {value: 1}}
  - {id: try, use: text.fail, with: {text: no}, on_error: {goto: start, max: 2}}
""")

    result = await run(engine, "on")

    assert result.error == "try#3: no"


async def test_no_document_answers_a_limit(open_engine: OpenEngine) -> None:
    """`on_error` is for tools that fail, never a way around what a run may use."""
    engine = await open_engine("""
id: on
limits: {nodes: 2}
steps:
  - id: a
    on_error: continue
    for: [1, 2, 3]
    use: number.double
    with: {value: "{{ item }}"}
""")

    result = await run(engine, "on")

    assert result.error == "a[1]: limits.nodes is 2, and this would be 3"


async def test_time_of_a_scope_is_answered_too(open_engine: OpenEngine) -> None:
    """A scope that takes too long is stopped, and the run goes on where its document says."""
    gates = Gates()
    engine = await open_engine(
        """
id: on
steps:
  - id: slow
    timeout: 2s
    on_error: continue
    steps: [{id: hang, use: gate.pass, with: {name: hang}}]
  - {id: after, use: text.upper, with: {text: after}}
outputs: {text: "{{ after.text }}"}
""",
        services={Gates: gates},
    )

    found, outputs = await continued(engine)

    assert outputs == {"text": "AFTER"}
    assert gates.inside == 0
    assert found == {"slow": "failed", "slow/hang": "cancelled", "after": "done"}
