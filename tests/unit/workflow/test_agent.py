"""The agent: a model and tools in turns, each call an instance of its own."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.workflow import Delta, Engine, Listener, ModelFacts, Program, RunResult
from tests.unit.workflow.conftest import OpenEngine
from tests.unit.workflow.tools import Gates, Script

CALLS_ONLY: list[list[tuple[str, Any]]] = [[("text_upper", {"text": "x"})]] * 3
CHAT = """
id: chat
inputs: {text: text}
steps:
  - id: reply
    use: agent
    prompt: [chat]
    stream: true
    with:
      text: "{{ inputs.text }}"
      tools: [text.upper, number.double, log.append, gate.pass]
      max_turns: 3
outputs: {text: "{{ reply.text }}", answer: "{{ reply.answer }}", turns: "{{ reply.turns }}"}
"""


async def talk(engine: Engine, text: str = "hello") -> tuple[RunResult, str]:
    """Run the chat; gives its result and the text that streamed."""
    listener = Listener()
    run = await engine.start("chat", {"text": text}, listener=listener)
    heard = [item async for item in listener]
    deltas = [item for item in heard if isinstance(item, Delta)]
    assert {delta.path for delta in deltas} <= {"reply"}
    return await engine.wait(run), "".join(delta.text for delta in deltas)


def told(script: Script) -> list[dict[str, Any]]:
    """The messages of the last question."""
    return list(script.asked[-1]["messages"])


async def test_tools_are_called_until_the_model_answers(open_engine: OpenEngine) -> None:
    """What streams is what the output says: the texts of all turns, a blank line between."""
    script = Script(
        ("Let me see.", [("number_double", {"value": 21}), ("text_upper", {"text": "so"})]),
        "It is 42.",
    )
    engine = await open_engine(CHAT, services={Script: script})

    result, streamed = await talk(engine)

    assert result.outputs == {"text": "Let me see.\n\nIt is 42.", "answer": "It is 42.", "turns": 2}
    assert streamed == "Let me see.\n\nIt is 42."
    assert told(script)[2:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "c0",
                    "type": "function",
                    "function": {"name": "number_double", "arguments": '{"value": 21}'},
                },
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "text_upper", "arguments": '{"text": "so"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "c0", "content": '{"value": 42}'},
        {"role": "tool", "tool_call_id": "c1", "content": '{"text": "SO"}'},
    ]
    steps = engine.run(result.run).steps
    assert [(step.path, step.node, step.tool, step.status) for step in steps] == [
        ("reply", "reply", "agent", "done"),
        ("reply/turn[1]/llm", "reply", "llm", "done"),
        ("reply/turn[1]/call[0]", "reply", "number.double", "done"),
        ("reply/turn[1]/call[1]", "reply", "text.upper", "done"),
        ("reply/turn[2]/llm", "reply", "llm", "done"),
    ]


async def test_model_is_told_prompt_request_and_tools(open_engine: OpenEngine) -> None:
    """The system text holds the resolved prompts and the task the run was started for."""
    script = Script("Hi.")
    engine = await open_engine(CHAT, services={Script: script})

    await talk(engine, "What is up?")

    asked = script.asked[0]
    assert asked["model"] == "auto"
    assert asked["messages"] == [
        {
            "role": "system",
            "content": "You are Hearth.\n\nThe task all of this is for:\nWhat is up?",
        },
        {"role": "user", "content": "What is up?"},
    ]
    assert asked["tools"][1] == {
        "type": "function",
        "function": {
            "name": "number_double",
            "description": "Double a number.",
            "parameters": {
                "additionalProperties": False,
                "properties": {"value": {"title": "Value", "type": "integer"}},
                "required": ["value"],
                "title": "number.double",
                "type": "object",
            },
        },
    }


async def test_model_that_takes_no_tools_is_offered_none(open_engine: OpenEngine) -> None:
    """A small model's template breaks on tools, so the facts of the model decide."""
    script = Script("Hi.")
    engine = await open_engine(
        CHAT.replace("    stream: true", "    model: plain\n    stream: true"),
        services={Script: script},
    )

    result, _ = await talk(engine)

    assert result.status == "done"
    assert (script.asked[0]["model"], script.asked[0]["tools"]) == ("plain", [])


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("no_such", {}, "Error: there is no tool 'no_such'. There is: text_upper, number_double"),
        ("number_double", {"value": "x"}, "Error: number.double: value: Input should be a valid"),
        (
            "number_double",
            {"valve": 1},
            "Error: number.double: value: Field required; valve: Extra",
        ),
        ("number_double", '{"value": 1', 'Error: the arguments are not a JSON object: \'{"value"'),
        ("text_upper", {"text": None}, "Error: text.upper: text: Input should be a valid string"),
    ],
)
async def test_mistake_of_the_model_is_told_to_the_model(
    open_engine: OpenEngine, name: str, arguments: Any, answer: str
) -> None:
    """Models err; the loop goes on, and only the model is told."""
    script = Script([(name, arguments)], "Sorry. Done.")
    engine = await open_engine(CHAT, services={Script: script})

    result, _ = await talk(engine)

    assert result.outputs["text"] == "Sorry. Done."
    assert told(script)[-1]["content"].startswith(answer)


async def test_tool_that_fails_is_told_to_the_model(open_engine: OpenEngine) -> None:
    """A `ToolFailed` inside an agent is a result like any other, and stands in the ledger."""
    script = Script([("text_fail", {"text": "out of paper"})], "There is no paper.")
    engine = await open_engine(
        CHAT.replace("[text.upper,", "[text.fail,"), services={Script: script}
    )

    result, _ = await talk(engine)

    assert told(script)[-1]["content"] == "Error: out of paper"
    found = {step.path: (step.status, step.error) for step in engine.run(result.run).steps}
    assert found["reply/turn[1]/call[0]"] == ("failed", "out of paper")
    assert result.status == "done"


async def test_tool_with_a_bug_fails_the_run(open_engine: OpenEngine) -> None:
    """A bug is for people to mend; a model could only talk around it."""
    script = Script([("text_break", {})])
    engine = await open_engine(
        CHAT.replace("[text.upper,", "[text.break,"), services={Script: script}
    )

    result, _ = await talk(engine)

    assert result.error == "reply: the tool broke: KeyError: 'no such key'"


async def test_turns_are_limited(open_engine: OpenEngine) -> None:
    """A model that only ever calls tools is stopped with a clear reason."""
    engine = await open_engine(CHAT, services={Script: Script(*CALLS_ONLY)})

    result, _ = await talk(engine)

    assert result.error == "reply: No answer after 3 turns: the model still asks for tools."


async def test_calls_that_change_nothing_run_together(open_engine: OpenEngine) -> None:
    """Two slow look-ups take the time of one."""
    gates = Gates()
    script = Script([("gate_pass", {"name": "a"}), ("gate_pass", {"name": "b"})], "Both.")
    engine = await open_engine(CHAT, services={Script: script, Gates: gates})

    run = await engine.start("chat", {"text": "x"})
    await gates.at("a")[0].wait()
    await gates.at("b")[0].wait()
    gates.at("b")[1].set()
    gates.at("a")[1].set()

    assert (await engine.wait(run)).outputs["text"] == "Both."
    assert [json.loads(m["content"])["text"] for m in told(script)[-2:]] == ["a", "b"]


async def test_calls_that_change_something_run_in_order(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    """What a model asks to be done in an order is done in that order."""
    lines: list[tuple[str, Any]] = [("log_append", {"line": str(i)}) for i in range(5)]
    engine = await open_engine(CHAT, services={Script: Script(lines, "Done.")})

    await talk(engine)

    assert (tmp_path / "log").read_text() == "0\n1\n2\n3\n4\n"


async def test_tokens_of_the_turns_are_summed(open_engine: OpenEngine) -> None:
    """The inspector shows what an agent cost, and what each of its calls did."""
    script = Script([("text_upper", {"text": "x"})], "Done.")
    engine = await open_engine(CHAT, services={Script: script})

    result, _ = await talk(engine)

    view = engine.run(result.run)
    assert (view.tokens.prompt, view.tokens.completion) == (20, 10)
    by_path = {step.path: step for step in view.steps}
    assert by_path["reply"].tokens.prompt == 20
    assert by_path["reply/turn[2]/llm"].tokens.completion == 5
    assert by_path["reply/turn[2]/llm"].model == "auto"
    assert by_path["reply/turn[2]/llm"].prompt == told(script)


TYPED = """
id: typed
inputs: {text: text}
steps:
  - id: plan
    use: llm
    model: small
    with:
      messages:
        - {role: system, content: Be quick.}
        - {role: user, content: "{{ inputs.text }}"}
    returns: {summary: text, files: [{path: text}], sure: boolean?}
outputs: {first: "{{ plan.files[0].path }}", summary: "{{ plan.summary }}"}
"""


@pytest.mark.parametrize(
    "answer",
    [
        '{"summary": "s", "files": [{"path": "a.py"}]}',
        '```json\n{"summary": "s", "files": [{"path": "a.py"}], "sure": true}\n```',
    ],
)
async def test_typed_answer_becomes_the_output(open_engine: OpenEngine, answer: str) -> None:
    """A model fills typed slots: with `returns` its answer is an object that was checked."""
    script = Script(answer)
    engine = await open_engine(TYPED, services={Script: script})

    result = await engine.wait(await engine.start("typed", {"text": "plan it"}))

    assert result.outputs == {"first": "a.py", "summary": "s"}
    system = script.asked[0]["messages"][0]["content"]
    assert "Answer with JSON of this schema" in system
    assert system.endswith("Be quick.")
    assert script.asked[0]["model"] == "smollm2"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("Sure! Here it is.", "plan: the answer is not JSON"),
        ('{"summary": "s"}', "plan: the answer has another form than `returns` (files: Field"),
        ("[" * 100_000, "plan: the answer is not JSON"),
    ],
)
async def test_answer_of_another_form_fails(
    open_engine: OpenEngine, answer: str, error: str
) -> None:
    """What follows can rely on the form, or does not run."""
    engine = await open_engine(TYPED, services={Script: Script(answer)})

    result = await engine.wait(await engine.start("typed", {"text": "plan it"}))

    assert (result.error or "").startswith(error)


async def test_tools_of_a_kind_are_those_that_there_are_when_it_begins(
    open_engine: OpenEngine,
) -> None:
    """Tools may come while the engine runs; a document names their kind, and there may be none."""
    chat = CHAT.replace(
        "[text.upper, number.double, log.append, gate.pass]", '[number.double, "mcp/*"]'
    )
    script = Script("One.", "Two.")
    engine = await open_engine(chat, services={Script: script})

    await talk(engine)
    engine.learn([replace(engine.tools["text.upper"], name="mcp/kitchen/heat")])
    await talk(engine)

    assert [[tool["function"]["name"] for tool in asked["tools"]] for asked in script.asked] == [
        ["number_double"], ["number_double", "mcp_kitchen_heat"],
    ]  # fmt: skip


async def test_model_is_not_offered_a_tool_that_its_machine_cannot_run(
    open_engine: OpenEngine,
) -> None:
    """A model that is offered it calls it in vain; the step says what is missing, so that a person
    can install it.
    """
    script = Script("One.")
    engine = await open_engine(CHAT, services={Script: script})
    nowhere = Program("hearth-no-such-program", apt="no-such-package")
    engine.learn([replace(engine.tools["text.upper"], needs=(nowhere,))])

    result, _ = await talk(engine)

    assert [tool["function"]["name"] for tool in script.asked[0]["tools"]] == [
        "number_double", "log_append", "gate_pass",
    ]  # fmt: skip
    assert engine.run(result.run).steps[0].facts["unavailable"] == {
        "text.upper": "The program hearth-no-such-program is missing. "
        "Install it with `apt install no-such-package`."
    }


async def test_restart_offers_the_model_what_it_was_offered_before(open_engine: OpenEngine) -> None:
    """An expert that lost its tools, or a tool that changed or went away, spoils no conversation
    that has begun.
    """
    chat = CHAT.replace(
        "[text.upper, number.double, log.append, gate.pass]", '[gate.pass, "mcp/*"]'
    ).replace("max_turns: 3", "max_turns: 4")
    gates, script = Gates(), Script([("mcp_heat", {"text": "x"})], [("gate_pass", {"name": "g"})])
    first = await open_engine(chat, services={Script: script, Gates: gates})
    first.learn([replace(first.tools["text.upper"], name="mcp/heat")])
    run = await first.start("chat", {"text": "hello"})
    await gates.at("g")[0].wait()
    await first.__aexit__()

    after, opened = Script([("mcp_heat", {"text": "y"})], "Done."), Gates()
    opened.at("g")[1].set()
    services = {Script: after, Gates: opened, ModelFacts: ModelFacts()}
    second = await open_engine(chat, services=services)
    second.learn([replace(second.tools["gate.pass"], about="Another text.")])
    await second.resume_unfinished()
    result = await second.wait(run)

    assert (result.status, result.error) == ("done", None)
    assert [asked["tools"] for asked in after.asked] == [script.asked[0]["tools"]] * 2
    messages = after.asked[1]["messages"]
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        '{"text": "X"}', '{"text": "g"}', "Error: There is no tool 'mcp_heat'.",
    ]  # fmt: skip
