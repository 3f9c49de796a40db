"""The tool `llm.json` against a model server on a real socket."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import ASGIApp

from hearth.openai_api.client import ModelClient
from hearth.openai_api.testing import ScriptedModel
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

Serve = Callable[[ASGIApp], str]
TYPED = TOOLS["llm.json"]
GIVEN = {
    "model": "small",
    "messages": [{"role": "user", "content": "a book"}],
    "returns": {"title": "text"},
}


@asynccontextmanager
async def asking(address: str, steps: list[str]) -> AsyncIterator[Context]:
    """A run whose models live at `address`; the places of inner calls go to `steps`."""
    async with ModelClient(f"{address}/v1", "k") as client:
        services: dict[Any, object] = {ModelClient: client}

        async def inner(tool: str, given: Mapping[str, Any], *, at: str, say: Any) -> Any:
            steps.append(at)
            return await TOOLS[tool].check(Context(services=services, speak=say), given)

        yield Context(run="r1", services=services, inner=inner)


@pytest.mark.parametrize(
    "said", ['{"title": "Emma"}', 'Here it is:\n```json\n{"title": "Emma"}\n```\nEnjoy.']
)
async def test_answer_is_data_of_the_form(serve: Serve, said: str) -> None:
    """A workflow reads fields, not prose."""
    model = ScriptedModel("small", key="k")
    model.when("a book").say(said)
    steps: list[str] = []

    async with asking(serve(model.app), steps) as ctx:
        told = await TYPED.check(ctx, GIVEN)

    assert told == {"value": {"title": "Emma"}, "attempts": 1, "model": "small"}
    assert steps == ["ask[1]"]
    body = model.requests[0].body
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["title"]
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


async def test_wrong_answer_is_sent_back_with_the_reason(serve: Serve) -> None:
    """Small models often need to be told once; each asking is a step that a resume keeps."""
    model = ScriptedModel("small", key="k")
    model.when("That is wrong").say('{"title": "Emma"}')
    model.when("a book").say('{"name": "Emma"}')
    steps: list[str] = []

    async with asking(serve(model.app), steps) as ctx:
        told = await TYPED.check(ctx, GIVEN)

    assert (told["value"], told["attempts"]) == ({"title": "Emma"}, 2)
    assert steps == ["ask[1]", "ask[2]"]
    again = model.requests[1].body["messages"]
    assert again[-2]["content"] == '{"name": "Emma"}'
    assert "title" in again[-1]["content"]
    assert "Field required" in again[-1]["content"]


async def test_model_that_never_gives_the_form_fails_the_node(serve: Serve) -> None:
    """A guess at what it meant would be worse."""
    model = ScriptedModel("small", key="k")
    model.when("").say("no")

    async with asking(serve(model.app), []) as ctx:
        with pytest.raises(ToolFailed, match="in 2 attempts"):
            await TYPED.check(ctx, {**GIVEN, "attempts": 2})

    assert len(model.requests) == 2


async def test_form_that_is_none_is_refused_before_anybody_is_asked() -> None:
    """The author of the document made a mistake, not the model."""
    with pytest.raises(ToolFailed, match="`returns` is not a valid type"):
        await TYPED.check(Context(), {**GIVEN, "returns": "txt"})
