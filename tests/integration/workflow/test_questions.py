"""Questions to people: durable waits, answers, time-outs; and notes to running runs."""

import asyncio
from typing import Any

import pytest

from pipecatapp.workflow import Engine, Event, NotAsked, UnknownRun, WrongAnswer
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates, Script

ASK = """
id: ask
steps:
  - {id: before, use: log.append, with: {line: before}}
  - id: sure
    use: person.ask
    with: {text: "Send {{ before.text }}?", choices: ["yes", "no"]}
  - {id: after, use: log.append, with: {line: "after {{ sure.answer }}"}}
outputs: {answer: "{{ sure.answer }}", by: "{{ sure.by }}"}
"""


async def waiting(engine: Engine, run: str, path: str = "sure") -> None:
    """Return once the run waits at `path`."""
    async for event in engine.follow(run):
        if (event.type, event.path) == ("node.waiting", path):
            break
    for _ in range(6000):
        if path in engine.questions(run):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} does not wait")


def events(engine: Engine, run: str) -> list[Event]:
    return list(engine.ledger.read.all_events(run, after=0))


@pytest.mark.proves("000-31")
async def test_answer_ends_the_wait(open_engine: OpenEngine) -> None:
    """A question is one event, its answer another; who answered is kept with it."""
    engine: Engine = await open_engine(ASK)
    run = await engine.start("ask", {})
    await waiting(engine, run)

    assert engine.run(run).status == "waiting"
    assert engine.questions(run)["sure"].text == "Send before?"
    await engine.answer(run, "sure", "yes", by="anna")
    result = await engine.wait(run)

    assert result.outputs == {"answer": "yes", "by": "anna"}
    told = [(e.type, e.data.get("by")) for e in events(engine, run) if e.path == "sure"]
    assert told == [("node.waiting", None), ("node.done", "anna")]
    assert engine.run(run).status == "done"


@pytest.mark.proves("000-19")
async def test_wait_outlives_the_process_and_nothing_runs_again(
    open_engine: OpenEngine, tmp_path: Any
) -> None:
    """The answer may come after days and restarts; what stands before the question is done once."""
    first: Engine = await open_engine(ASK)
    run = await first.start("ask", {})
    await waiting(first, run)
    await first.__aexit__()
    assert first.run(run).status == "waiting"

    second: Engine = await open_engine()
    await second.resume_unfinished()
    await waiting(second, run)
    await second.answer(run, "sure", "no", by="anna")
    result = await second.wait(run)

    assert result.outputs["answer"] == "no"
    assert (tmp_path / "log").read_text() == "before\nafter no\n"
    assert [e.type for e in events(second, run) if e.path == "sure"] == [
        *("node.waiting", "node.done")
    ]


async def test_answer_is_kept_though_the_process_dies_with_it(open_engine: OpenEngine) -> None:
    """Whoever was told that the answer is taken is not asked again."""
    first: Engine = await open_engine(ASK)
    run = await first.start("ask", {})
    await waiting(first, run)
    live = first._live[run]
    live.waiting.answer = lambda path, reply: None  # type: ignore[method-assign]
    await first.answer(run, "sure", "yes", by="anna")
    await first.__aexit__()

    second: Engine = await open_engine()
    await second.resume_unfinished()

    assert (await second.wait(run)).outputs == {"answer": "yes", "by": "anna"}


async def test_answer_that_comes_while_the_run_is_resumed_is_not_lost(
    open_engine: OpenEngine,
) -> None:
    """The page shows the question as soon as the service is back, before the run goes on."""
    first: Engine = await open_engine(ASK)
    run = await first.start("ask", {})
    await waiting(first, run)
    await first.__aexit__()

    second: Engine = await open_engine()
    await asyncio.gather(second.answer(run, "sure", "yes"), second.resume_unfinished())

    async with asyncio.timeout(30):
        assert (await second.wait(run)).outputs["answer"] == "yes"


async def test_wrong_answer_is_refused_and_the_question_stays(open_engine: OpenEngine) -> None:
    """What does not fit is told to the person, not to the run."""
    engine: Engine = await open_engine(ASK)
    run = await engine.start("ask", {})
    await waiting(engine, run)

    with pytest.raises(WrongAnswer, match="one of yes, no, not 'perhaps'"):
        await engine.answer(run, "sure", "perhaps")
    with pytest.raises(NotAsked, match=r"No question is open at 'before'\. Open: sure"):
        await engine.answer(run, "before", "yes")
    await engine.answer(run, "sure", "yes")
    await engine.wait(run)

    with pytest.raises(UnknownRun, match="has ended"):
        await engine.answer(run, "sure", "yes")


@pytest.mark.parametrize("name", ["sure", "scope/sure"])
async def test_answer_may_come_with_the_start(open_engine: OpenEngine, name: str) -> None:
    """A run that nobody watches is given its answers beforehand, by id or by path."""
    scoped = "id: scoped\nsteps:\n  - id: scope\n    steps:\n" + "\n".join(
        f"    {line}" for line in ASK.split("steps:\n")[1].split("outputs:")[0].splitlines()
    )
    engine: Engine = await open_engine(scoped)

    run = await engine.start("scoped", {}, answers={name: "yes"}, interactive=False)

    assert (await engine.wait(run)).status == "done"
    step = next(step for step in engine.run(run).steps if step.path == "scope/sure")
    assert step.output == {"answer": "yes", "by": "start"}


async def test_nobody_to_ask_is_a_failure(open_engine: OpenEngine) -> None:
    """There is no silent answer: a run without people fails and says what it needed."""
    engine: Engine = await open_engine(ASK)

    run = await engine.start("ask", {}, interactive=False)

    error = "sure: Nobody can answer 'Send before?'. Use --answer sure=…."
    assert (await engine.wait(run)).error == error


async def test_stated_answer_stands_where_nobody_is_to_ask(open_engine: OpenEngine) -> None:
    """A script runs through a question whose document says what holds without an answer."""
    engine: Engine = await open_engine(
        ASK.replace('choices: ["yes", "no"]', 'choices: ["yes", "no"], otherwise: "no"')
    )

    result = await engine.wait(await engine.start("ask", {}, interactive=False))

    assert (result.status, result.outputs) == ("done", {"answer": "no", "by": ""})


@pytest.mark.parametrize(
    ("more", "status", "answer"), [(", otherwise: late", "done", "late"), ("", "failed", None)]
)
async def test_time_for_an_answer_ends(
    open_engine: OpenEngine, more: str, status: str, answer: str | None
) -> None:
    """After the stated time the stated answer stands; without one the node fails."""
    engine: Engine = await open_engine(
        f"""
id: timed
limits: {{wall: 60s}}
steps: [{{id: sure, use: person.ask, with: {{text: Now?, after: 0.05{more}}}}}]
outputs: {{answer: "{{{{ sure.answer }}}}"}}
"""
    )

    result = await engine.wait(await engine.start("timed", {}))

    assert (result.status, result.outputs.get("answer")) == (status, answer)
    assert result.error in (None, "sure: Nobody answered within 0.05 s.")


async def test_time_that_people_take_is_not_the_runs(open_engine: OpenEngine) -> None:
    """`limits.wall` is for work; a question over the weekend does not end the run."""
    engine: Engine = await open_engine(ASK.replace("steps:", "limits: {wall: 3s}\nsteps:", 1))
    run = await engine.start("ask", {})
    await waiting(engine, run)

    await asyncio.sleep(3.2)
    await engine.answer(run, "sure", "yes")

    assert (await engine.wait(run)).status == "done"


@pytest.mark.proves("001-22")
async def test_rest_of_a_graph_goes_on_while_a_question_is_open(open_engine: OpenEngine) -> None:
    """Only what reads the answer waits for it."""
    engine: Engine = await open_engine("""
id: beside
graph:
  - {id: sure, use: person.ask, with: {text: "A number?", returns: integer}}
  - {id: other, use: number.double, with: {value: 4}}
  - {id: sum, use: number.double, with: {value: "{{ sure.answer + other.value }}"}}
outputs: {sum: "{{ sum.value }}"}
""")
    run = await engine.start("beside", {})
    await waiting(engine, run)
    async for event in engine.follow(run):
        if (event.type, event.path) == ("node.done", "other"):
            break

    await engine.answer(run, "sure", 2)

    assert (await engine.wait(run)).outputs == {"sum": 20}


async def test_waiting_run_can_be_cancelled(open_engine: OpenEngine) -> None:
    """A question that nobody needs any more ends with its run."""
    engine: Engine = await open_engine(ASK)
    run = await engine.start("ask", {})
    await waiting(engine, run)

    await engine.cancel(run)

    assert {step.path: step.status for step in engine.run(run).steps} == {
        "before": "done",
        "sure": "cancelled",
    }


@pytest.mark.proves("000-17")
@pytest.mark.parametrize("loop", ["until", "goto"])
async def test_person_decides_whether_a_loop_goes_on(open_engine: OpenEngine, loop: str) -> None:
    """At its `max` a loop asks; an answer allows that many visits more, over restarts too."""
    documents = {
        "until": """
id: more
steps:
  - {id: fix, use: number.double, until: "{{ fix.value > 30 }}", max: 2, on_max: ask,
     with: {value: "{{ prev.value or 1 }}"}}
outputs: {value: "{{ fix.last.value }}"}
""",
        "goto": """
id: more
steps:
  - {id: fix, use: number.double, with: {value: "{{ prev.fix.value or 1 }}"}}
  - {id: again, goto: fix, if: "{{ fix.value <= 30 }}", max: 1, on_max: ask}
outputs: {value: "{{ fix.value }}"}
""",
    }
    first_path, second_path = {
        "until": ("fix[2]/max", "fix[3]/max"),
        "goto": ("again#2/max", "again#3/max"),
    }[loop]
    first: Engine = await open_engine(documents[loop])
    run = await first.start("more", {})
    await waiting(first, run, first_path)
    await first.answer(run, first_path, 1, by="anna")
    await waiting(first, run, second_path)
    await first.__aexit__()

    second: Engine = await open_engine()
    await second.resume_unfinished()
    await waiting(second, run, second_path)
    await second.answer(run, second_path, 9, by="anna")

    assert (await second.wait(run)).outputs == {"value": 32}


@pytest.mark.proves("000-18")
async def test_note_reaches_the_next_model(open_engine: OpenEngine) -> None:
    """A person may say something at any time; every model asked from then on is told, by whom."""
    gates, script = Gates(), Script("one", "two")
    engine: Engine = await open_engine(
        """
id: talk
steps:
  - {id: a, use: llm, with: {text: first}}
  - {id: hold, use: gate.pass, with: {name: hold}}
  - {id: b, use: llm, with: {text: second}}
""",
        services={Gates: gates, Script: script},
    )
    run = await engine.start("talk", {})
    await gates.at("hold")[0].wait()

    await engine.note(run, "Mind the gap.", by="anna")
    gates.at("hold")[1].set()
    await engine.wait(run)

    note = "Note from anna while this runs: Mind the gap."
    assert note not in str(script.asked[0]["messages"])
    assert note in script.asked[1]["messages"][0]["content"]
    told = [event.data for event in events(engine, run) if event.type == "run.note"]
    assert told == [{"text": "Mind the gap.", "by": "anna"}]
    with pytest.raises(UnknownRun, match="has ended"):
        await engine.note(run, "too late")


async def test_note_to_a_resting_run_reaches_the_next_model(open_engine: OpenEngine) -> None:
    """With the service stopped a person can still say something to what goes on later."""
    document = """
id: talk
steps:
  - {id: sure, use: person.ask, with: {text: "Now?"}}
  - {id: reply, use: llm, with: {text: go}}
"""
    first: Engine = await open_engine(document)
    run = await first.start("talk", {})
    await waiting(first, run)
    await first.__aexit__()
    script = Script("Done.")
    second: Engine = await open_engine(services={Script: script})

    await second.note(run, "Mind the gap.", by="anna")
    await second.answer(run, "sure", "yes")
    await second.resume_unfinished()
    await second.wait(run)

    assert "Note from anna while this runs: Mind the gap." in str(script.asked[0]["messages"])
    assert [event.data["by"] for event in events(second, run) if event.type == "run.note"] == [
        "anna"
    ]


@pytest.mark.proves("000-18")
async def test_note_reaches_a_working_agent_and_its_resume(open_engine: OpenEngine) -> None:
    """An agent is told between its turns, once, and after a restart it is told the same."""
    gates = Gates()
    turns: list[Any] = [[("gate_pass", {"name": "one"})], [("gate_pass", {"name": "two"})], "Done."]
    script = Script(*turns)
    document = """
id: work
steps: [{id: reply, use: agent, with: {text: go, tools: [gate.pass]}}]
outputs: {text: "{{ reply.text }}"}
"""
    first: Engine = await open_engine(document, services={Gates: gates, Script: script})
    run = await first.start("work", {})
    await gates.at("one")[0].wait()
    await first.note(run, "Hurry.", by="anna")
    gates.at("one")[1].set()
    await gates.at("two")[0].wait()
    await first.__aexit__()
    again, rest = Gates(), Script("Done.")
    again.at("two")[1].set()

    second: Engine = await open_engine(services={Gates: again, Script: rest})
    await second.resume_unfinished()

    assert (await second.wait(run)).outputs == {"text": "Done."}
    contents = [message.get("content") for message in rest.asked[0]["messages"]]
    assert contents.count("Note from anna while this runs: Hurry.") == 1
    assert script.asked[1]["messages"] == rest.asked[0]["messages"][:-2]
