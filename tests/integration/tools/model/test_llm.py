"""The tool `llm` against a model server on a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from starlette.types import ASGIApp

from hearth.openai_api.client import ModelClient
from hearth.openai_api.scripts import Rule
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

Serve = Callable[[ASGIApp], str]
LLM = TOOLS["llm"]
HELLO = [{"role": "user", "content": "hello there"}]
TOOL = {"type": "function", "function": {"name": "time.now", "parameters": {}}}


@asynccontextmanager
async def asking(address: str, heard: list[str] | None = None) -> AsyncIterator[Context]:
    """A context whose models live at `address`; what is said goes to `heard`."""
    async with ModelClient(f"{address}/v1", "k") as client:
        speak = (heard if heard is not None else []).append
        yield Context(services={ModelClient: client}, speak=speak)


async def test_llm_says_the_words_as_they_come_and_gives_the_whole(serve: Serve) -> None:
    """A listener hears the first word before the last one is there; the run keeps the text."""
    model = ScriptedModel("small", key="k")
    model.when("hello").say("Good day to you.")
    heard: list[str] = []

    async with asking(serve(model.app), heard) as ctx:
        answer = await LLM.check(ctx, {"model": "small", "messages": HELLO})

    assert answer == {
        "text": "Good day to you.",
        "tool_calls": [],
        "finish_reason": "stop",
        "model": "small",
    }
    assert "".join(heard) == "Good day to you."
    assert len(heard) > 1


async def test_llm_records_what_was_asked_and_what_it_cost(serve: Serve) -> None:
    """The inspector shows prompt, model and tokens of every step."""
    model = ScriptedModel("small", key="k")
    model.when("hello").say("Good day")

    async with asking(serve(model.app)) as ctx:
        await LLM.check(ctx, {"model": "small", "messages": HELLO})

    assert (ctx.facts.model, ctx.facts.prompt) == ("small", HELLO)
    assert (ctx.facts.prompt_tokens, ctx.facts.completion_tokens) == (2, 2)


async def test_llm_gives_the_calls_that_the_model_asks_for(serve: Serve) -> None:
    """The agent runs them; arguments are data, not text."""
    model = ScriptedModel("small", key="k")
    model.when("hello").call_tool("time.now", {"zone": "UTC"})

    async with asking(serve(model.app)) as ctx:
        answer = await LLM.check(ctx, {"model": "small", "messages": HELLO, "tools": [TOOL]})

    (call,) = answer["tool_calls"]
    assert (call["name"], call["arguments"]) == ("time.now", {"zone": "UTC"})
    assert call["id"]
    assert answer["finish_reason"] == "tool_calls"
    (offered,) = model.requests[0].body["tools"]
    assert offered["function"]["name"] == "time.now"


async def test_llm_passes_sampling_on_and_leaves_out_what_was_not_said(serve: Serve) -> None:
    """A null that the caller never wrote could change how a server samples."""
    model = ScriptedModel("small", key="k")

    async with asking(serve(model.app)) as ctx:
        await LLM.check(ctx, {"messages": HELLO, "temperature": 0, "max_tokens": 7})
        await LLM.check(ctx, {"messages": HELLO})

    said, unsaid = (request.body for request in model.requests)
    assert (said["temperature"], said["max_tokens"], said["model"]) == (0, 7, "auto")
    assert not {"temperature", "max_tokens", "tools"} & set(unsaid)


async def test_llm_says_how_to_start_a_gateway_that_does_not_answer() -> None:
    """Whoever runs a workflow before the instance learns what to do."""
    async with asking("http://127.0.0.1:9") as ctx:
        with pytest.raises(ToolFailed, match="hearth up"):
            await LLM.check(ctx, {"messages": HELLO})


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (lambda rule: rule.refuse(503, "no expert"), "does not answer.*no expert"),
        (lambda rule: rule.refuse(404, "no such model"), "refused model 'small'.*no such model"),
        (lambda rule: rule.lose("one two three", after=1, how="reset"), "did not finish"),
        (lambda rule: rule.lose("one two three", after=1, how="error"), "did not finish"),
    ],
)
async def test_llm_fails_with_the_reason(
    serve: Serve, fail: Callable[[Rule], Rule], said: str
) -> None:
    """Half an answer is no answer, and the run's page says why there is none."""
    model = ScriptedModel("small", key="k")
    fail(model.when("hello"))

    async with asking(serve(model.app)) as ctx:
        with pytest.raises(ToolFailed, match=said):
            await LLM.check(ctx, {"model": "small", "messages": HELLO})


async def test_llm_refuses_messages_that_are_no_chat(serve: Serve) -> None:
    """A mistake in a workflow is told by us, with its place, not by a server far away."""
    model = ScriptedModel()

    async with asking(serve(model.app)) as ctx:
        with pytest.raises(ToolFailed, match=r"not a valid chat \(messages\.0\.role\)"):
            await LLM.check(ctx, {"messages": [{"role": "robot", "content": "x"}]})

    assert model.requests == []
