"""What a run may do: effects are asked for in the document, granted at the start, never widened."""

from pathlib import Path

import pytest

from pipecatapp.workflow import Effect, Engine, InvalidDocument, NotGranted, load_document
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates, Script

SENDS = """
id: sends
inputs: {line: text}
steps: [{id: sent, use: log.append, with: {line: "{{ inputs.line }}"}}]
outputs: {text: "{{ sent.text }}"}
"""
ASKS = """
id: asks
allow: [llm, pure]
inputs: {tools: list of text}
steps: [{id: reply, use: agent, with: {text: hi, tools: "{{ inputs.tools }}"}}]
outputs: {text: "{{ reply.text }}"}
"""


async def test_effect_that_is_not_asked_for_is_a_fault(open_engine: OpenEngine) -> None:
    """Who reads `allow` knows what a document can do, however deep it is hidden."""
    engine: Engine = await open_engine(SENDS)
    document = """
id: outer
allow: [pure]
steps:
  - {id: here, use: log.append, with: {line: x}}
  - {id: below, use: workflow/sends, with: {line: x}}
  - {id: reply, use: agent, with: {text: x, tools: [log.append]}}
"""

    with pytest.raises(InvalidDocument) as caught:
        engine.plan(load_document(document.lstrip(), file="w.yaml"))

    assert [str(one) for one in caught.value.diagnostics] == [
        "w.yaml:2:8: 'here' has the effect `external`, which is not allowed here. Add external",
        "w.yaml:2:8: 'reply' has the effect `llm`, which is not allowed here. Add llm",
    ]


async def test_start_may_grant_less_and_no_more(open_engine: OpenEngine) -> None:
    """A person who does not trust a document runs it without the effects that matter."""
    engine: Engine = await open_engine(SENDS)

    with pytest.raises(NotGranted, match="sent needs the effect `external`, which is not granted"):
        await engine.start("sends", {"line": "x"}, grants=["pure"])
    done = await engine.wait(await engine.start("sends", {"line": "x"}, grants=["external"]))

    assert done.outputs == {"text": "x"}
    assert [run.id for run in engine.runs()] == [done.run]


async def test_agent_is_refused_what_its_document_does_not_allow(open_engine: OpenEngine) -> None:
    """Tools that are named only in the run gain nothing: the model is told, nothing is sent."""
    script = Script([("log_append", {"line": "x"})], "then not")
    engine: Engine = await open_engine(ASKS, services={Script: script})

    run = await engine.start("asks", {"tools": ["log.append"]})
    done = await engine.wait(run)

    assert done.outputs == {"text": "then not"}
    told = script.asked[1]["messages"][-1]["content"]
    assert told == "Error: log.append has the effect `external`, which is not granted."


OUTER = """
id: outer
ALLOW
steps: [{id: below, use: workflow/asks, with: {tools: [log.append]}}]
outputs: {text: "{{ below.text }}"}
"""


@pytest.mark.parametrize("inner", ["allow: [llm, pure]", "allow: [llm, external]", ""])
@pytest.mark.parametrize("outer", ["allow: [llm]", ""])
@pytest.mark.parametrize("given", [["llm"], None])
async def test_children_only_narrow(
    open_engine: OpenEngine, tmp_path: Path, inner: str, outer: str, given: list[Effect] | None
) -> None:
    """A workflow that may do little stays so, whoever uses it; one that may much gains nothing."""
    script = Script([("log_append", {"line": "x"})], "then")
    engine: Engine = await open_engine(
        OUTER.replace("ALLOW", outer),
        ASKS.replace("allow: [llm, pure]", inner),
        services={Script: script},
    )

    done = await engine.wait(await engine.start("outer", {}, grants=given))

    assert done.outputs == {"text": "then"}
    sent = "pure" not in inner and not outer and given is None
    told = script.asked[1]["messages"][-1]["content"]
    assert ("not granted" in told) is not sent
    assert (tmp_path / "log").exists() is sent


async def test_resumed_run_has_the_grants_that_it_was_started_with(open_engine: OpenEngine) -> None:
    """A restart of the service is no way to more."""
    free = ASKS.replace("allow: [llm, pure]", "")
    gates, after = Gates(), Gates()
    script = Script([("gate_pass", {"name": "g"})])
    first: Engine = await open_engine(free, services={Script: script, Gates: gates})
    tools = {"tools": ["gate.pass", "log.append"]}
    run = await first.start("asks", tools, grants=["llm", "read"])
    await gates.at("g")[0].wait()
    await first.__aexit__()
    later = Script([("log_append", {"line": "x"})], "then not")
    after.at("g")[1].set()

    second: Engine = await open_engine(free, services={Script: later, Gates: after})
    await second.resume_unfinished()
    done = await second.wait(run)

    assert done.outputs == {"text": "then not"}
    assert "not granted" in later.asked[1]["messages"][-1]["content"]


@pytest.mark.parametrize("edited", [False, True])
async def test_fork_has_the_grants_of_its_origin(open_engine: OpenEngine, *, edited: bool) -> None:
    """Running again, with an edited graph or without, is no way to more."""
    free = ASKS.replace("allow: [llm, pure]", "")
    script = Script("nothing", [("log_append", {"line": "x"})], "then not")
    engine: Engine = await open_engine(free, SENDS, services={Script: script})
    run = await engine.start("asks", {"tools": ["log.append"]}, grants=["llm"])
    await engine.wait(run)
    plan = engine.plan(load_document(f"{free}about: another", file="w.yaml")) if edited else None

    again = await engine.wait(await engine.fork(run, plan=plan, at="reply"))

    assert again.outputs == {"text": "then not"}
    assert "not granted" in script.asked[2]["messages"][-1]["content"]
    with pytest.raises(NotGranted, match="sent needs the effect `external`"):
        await engine.fork(run, plan=engine.plan("sends"), inputs={"line": "x"})


CHECKED = """
id: checked
inputs: {text: text}
steps:
  - id: draft
    use: llm
    with: {text: "{{ inputs.text }}"}
    retry: 2
    check:
      the answer is too short: "{{ draft.text | length > 3 }}"
      it repeats the question: "{{ inputs.text not in draft.text }}"
outputs: {text: "{{ draft.text }}"}
"""


async def test_output_that_fails_its_check_is_made_again(open_engine: OpenEngine) -> None:
    """A model's mistake is found where it is made, by a rule and not by the next reader."""
    script = Script("no", "you said x", "fine")
    engine: Engine = await open_engine(CHECKED, services={Script: script})

    done = await engine.wait(await engine.start("checked", {"text": "x"}))

    assert done.outputs == {"text": "fine"}
    reasons = [
        event.data["error"]
        for event in engine.ledger.read.all_events(done.run, after=0)
        if event.type == "node.queued"
    ]
    assert reasons == ["check: the answer is too short", "check: it repeats the question"]


@pytest.mark.parametrize(
    ("node", "read"),
    [
        ("use: text.upper, with: {text: a}", "it.text"),
        ("steps: [{id: i, use: text.upper, with: {text: a}}]", "it.i.text"),
        ("use: workflow/sends, with: {line: a}", "it.text"),
        ("for: [a], use: text.upper, with: {text: a}", "it.text"),
    ],
)
async def test_check_that_fails_is_a_failure_of_the_node(
    open_engine: OpenEngine, node: str, read: str
) -> None:
    """Tools, scopes, workflows and visits alike; `on_error` answers it as any other failure."""
    check = f"\"{{{{ {read} == 'B' }}}}\""
    engine: Engine = await open_engine(
        f"id: w\nsteps: [{{id: it, {node}, check: {check}}}]\n", SENDS
    )

    done = await engine.wait(await engine.start("w", {}))

    assert done.status == "failed"
    assert f"check: it is not true that {{{{ {read} == 'B' }}}}" in str(done.error)


async def test_known_output_is_not_taken_when_it_fails_a_new_check(open_engine: OpenEngine) -> None:
    """A rule that was added since must hold for outputs of the cache, too."""
    once = "id: {}\nsteps: [{{id: a, use: text.upper, with: {{text: a}}{}}}]\n"
    engine: Engine = await open_engine(
        once.format("first", ""), once.format("then", ", check: \"{{ a.text == 'B' }}\"")
    )

    await engine.wait(await engine.start("first", {}))
    done = await engine.wait(await engine.start("then", {}))

    assert done.error == "a: check: it is not true that {{ a.text == 'B' }}"
