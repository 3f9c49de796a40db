"""What a run would do is known before it is started, and it does just that."""

from typing import Any

import pytest

from pipecatapp.application.preview.plan import plan_text
from pipecatapp.application.runs import Document, RunService
from pipecatapp.workflow import Engine
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Script

DOCUMENT = """
id: seen
inputs: {text: text, many: list of integer}
steps:
  - {id: loud, use: text.upper, with: {text: "{{ inputs.text }}"}}
  - id: each
    for: {each: "{{ inputs.many }}"}
    steps: [{id: twice, use: number.double, with: {value: "{{ item }}"}}]
  - id: some
    if: "{{ inputs.text == 'never' }}"
    use: text.upper
    with: {text: never}
    else: [{id: other, use: workflow/inner, with: {n: "{{ each.last.twice.value }}"}}]
  - {id: after, use: text.upper, with: {text: "{{ some.text }}"}}
  - {id: draft, use: llm, with: {text: "{{ loud.text }}"}}
  - {id: sent, use: log.append, with: {line: "{{ loud.text }}"}}
  - {id: last, use: text.upper, with: {text: "{{ draft.text }}"}}
  - {id: pinned, use: llm, cache: pin, pinned: {text: p}, with: {text: x}}
  - {id: end, use: text.upper, with: {text: "{{ pinned.text }}"}}
outputs: {text: "{{ last.text }}"}
"""
INNER = """
id: inner
inputs: {n: integer}
steps: [{id: twice, use: number.double, with: {value: "{{ inputs.n }}"}}]
outputs: {value: "{{ twice.value }}"}
"""
INPUTS: dict[str, Any] = {"text": "hi", "many": [1, 2]}


def dry_run(engine: Engine, document: str = "", **more: Any) -> dict[str, str]:
    asked = Document(document=document) if document else Document(workflow="seen")
    inputs = None if "run" in more else INPUTS
    steps = RunService(engine).dry_run(asked, inputs, **more).steps
    return {step.path: f"{step.state}: {step.why}" for step in steps}


async def ran(engine: Engine) -> str:
    return (await engine.wait(await engine.start("seen", INPUTS))).run


async def test_first_run_calls_everything_that_can_be_known(open_engine: OpenEngine) -> None:
    """Nothing is known yet: what is called first is dirty, what follows may be."""
    engine: Engine = await open_engine(DOCUMENT, INNER, services={Script: Script("x")})

    assert dry_run(engine) == {
        "loud": "dirty: there is no cached result",
        "each[0]/twice": "dirty: there is no cached result",
        "each[0]": "maybe: it depends on the steps inside",
        "each[1]/twice": "dirty: there is no cached result",
        "each[1]": "maybe: it depends on the steps inside",
        "each": "maybe: it follows from its visits",
        "some": "skipped: its `if` is false",
        "other": "maybe: it follows from each",
        "after": "skipped: 'some' is skipped",
        "draft": "maybe: it follows from loud",
        "sent": "maybe: it follows from loud",
        "last": "maybe: it follows from draft",
        "pinned": "fresh: pinned",
        "end": "dirty: there is no cached result",
    }


async def test_next_run_takes_what_is_shared(open_engine: OpenEngine) -> None:
    """What only computes is known to every run; models are asked and things sent once more."""
    engine: Engine = await open_engine(DOCUMENT, INNER, services={Script: Script("a", "b")})
    await ran(engine)

    states = dry_run(engine)
    fresh = {path for path, state in states.items() if state.startswith("fresh")}

    assert fresh == {
        *("loud", "each[0]/twice", "each[0]", "each[1]/twice", "each[1]", "each"),
        *("other/twice", "other", "pinned", "end"),
    }
    assert states["draft"] == "dirty: its model is called in each run, as its temperature is not 0"
    assert states["sent"] == "dirty: what has the effect `external` is done in each run"
    assert states["last"] == "maybe: it follows from draft"


@pytest.mark.parametrize("edit", ["", "edited", "at"])
async def test_fork_does_what_was_foreseen(open_engine: OpenEngine, edit: str) -> None:
    """The page shows before a person presses the button what will be asked and sent again."""
    script = Script("a", "b", "c")
    engine: Engine = await open_engine(DOCUMENT, INNER, services={Script: script})
    run = await ran(engine)
    document = DOCUMENT.replace('"{{ loud.text }}"}}', '"so {{ loud.text }}"}}', 1)
    text = document if edit == "edited" else ""
    at: dict[str, Any] = {"at": "draft"} if edit == "at" else {}

    states = dry_run(engine, text, run=run, **at)
    plan = engine.plan(RunService(engine).workflow(Document(document=text))) if text else None
    forked = await engine.wait(await engine.fork(run, plan=plan, **at))

    called = {
        event.path
        for event in engine.ledger.read.all_events(forked.run, after=0)
        if event.type == "node.running" and event.data.get("tool")
    }
    dirty = {path for path, state in states.items() if state.startswith("dirty")}
    maybe = {path for path, state in states.items() if state.startswith("maybe")}
    assert dirty == ({"draft"} if edit else set())
    assert dirty <= called <= dirty | maybe
    reasons = {
        "edited": "dirty: changed: input messages",
        "at": "dirty: run again from draft",
        "": f"fresh: known from {run}",
    }
    assert states["draft"] == reasons[edit]


TELLING = """
id: telling
inputs: {text: text, many: list of text, style: {type: text, default: plain}}
steps:
  - id: draft
    use: llm
    prompt: [chat]
    with: {text: "Write {{ inputs.style }}: {{ inputs.text }}"}
  - id: each
    for: "{{ inputs.many }}"
    steps: [{id: judge, use: llm, with: {text: "{{ inputs.text }}, {{ item }}? {{ draft.text }}"}}]
  - {id: below, use: workflow/below, with: {word: "{{ inputs.text }}", late: "{{ draft.text }}"}}
"""
BELOW = """
id: below
inputs: {word: text, late: text, kind: {type: text, default: odd}}
steps:
  - id: say
    use: llm
    with: {text: "{{ inputs.kind }} {{ inputs.word | upper }} {{ inputs.late | default('none') }}"}
"""


async def test_prompts_are_told_as_far_as_the_inputs_say_them(open_engine: OpenEngine) -> None:
    """What a model would be told is read before it is paid for; what is open is seen as open."""
    engine: Engine = await open_engine(TELLING, BELOW)

    asked = Document(workflow="telling")
    prompts = RunService(engine).dry_run(asked, {"text": "hi {{ now }}", "many": ["a"]}).prompts

    told = {one.path: one.messages[-1]["content"] for one in prompts}
    assert told == {
        "draft": "Write plain: hi {{ now }}",
        "each/judge": "hi {{ now }}, {{ item }}? {{ draft.text }}",
        "below/say": "odd HI {{ NOW }} {{ inputs.late | default('none') }}",
    }
    system = prompts[0].messages[0]
    assert system["role"] == "system"
    assert "You are Hearth." in system["content"]
    assert "hi {{ now }}" in system["content"]


WORST = """
id: worst
defaults: {cache: never}
inputs: {many: list of integer}
steps:
  - {id: each, for: {each: [1, 2, 3]}, steps: [{id: a, use: llm, with: {text: x}}]}
  - {id: twice, use: number.double, with: {value: 1}, while: "{{ true }}", max: 2, on_max: continue}
  - {id: used, use: workflow/inner, with: {n: 1}}
  - {id: back, goto: twice, max: 2, on_max: continue}
  - {id: fails, use: text.fail, with: {text: x}, retry: 2, on_error: continue}
  - {id: some, for: "{{ inputs.many }}", use: llm, with: {text: x}}
"""


async def test_worst_case_is_what_a_run_comes_to_in_the_worst_case(open_engine: OpenEngine) -> None:
    """Who sets a limit, or pays for it, knows what the document alone can come to."""
    script = Script(*"abcdefg")
    engine: Engine = await open_engine(WORST, INNER, services={Script: script})

    run = await engine.wait(await engine.start("worst", {"many": [1, 2]}))

    told = plan_text(engine.plan("worst"))
    assert "\nworst case of own steps: 26 + 1 for each item of some\n" in told
    assert "\nworst case of own model calls: 3 + 1 for each item of some\n" in told
    assert run.status == "done"
    steps = engine.ledger.read.spent(run.run).nodes
    assert (steps, len(script.asked)) == (26 + 2, 3 + 2)
