"""The client against a scripted model on a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from starlette.types import ASGIApp

from hearth.openai_api.chat import ChatRequest, Function, Message, StreamOptions, ToolSpec
from hearth.openai_api.client import ModelClient, Timeouts
from hearth.openai_api.errors import ModelLost, ModelRefused, ModelUnavailable
from hearth.openai_api.scripts import Break
from hearth.openai_api.testing import ScriptedModel

Serve = Callable[[ASGIApp], str]
KEY = "sk-test"


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel("small", key=KEY)


@pytest.fixture
async def client(model: ScriptedModel, serve: Serve) -> AsyncIterator[ModelClient]:
    async with ModelClient(f"{serve(model.app)}/v1", KEY, Timeouts(connect=30, idle=60)) as client:
        yield client


def ask(text: str, **fields: object) -> ChatRequest:
    messages = [Message(role="user", content=text)]
    return ChatRequest.model_validate({"model": "small", "messages": messages, **fields})


async def text_of(client: ModelClient, request: ChatRequest, into: list[str]) -> None:
    """Collect the words of a streamed answer, so that a test sees how far it came."""
    async with client.stream(request) as chunks:
        async for chunk in chunks:
            into.append(chunk.text)


async def test_stream_gives_the_words_and_the_usage(client: ModelClient) -> None:
    """What the model says arrives as typed chunks, in order."""
    request = ask("one two three", stream_options=StreamOptions(include_usage=True))
    async with client.stream(request) as chunks:
        got = [chunk async for chunk in chunks]

    assert "".join(chunk.text for chunk in got) == "one two three"
    assert got[-1].usage is not None
    assert got[-1].usage.completion_tokens == 3
    assert got[-2].choices[0].finish_reason == "stop"


async def test_complete_gives_message_usage_and_tool_calls(
    client: ModelClient, model: ScriptedModel
) -> None:
    """A tool call comes with its id, name and JSON arguments."""
    model.when("time").call_tool("time.now", {"zone": "UTC"})
    tools = [ToolSpec(function=Function(name="time.now"))]

    answer = await client.complete(ask("what time", tools=tools))

    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.message.tool_calls is not None
    assert answer.message.tool_calls[0].function.name == "time.now"
    assert answer.message.tool_calls[0].function.arguments == '{"zone": "UTC"}'
    assert model.requests[0].body["tools"][0]["function"]["name"] == "time.now"


async def test_fields_we_do_not_know_reach_the_server(
    client: ModelClient, model: ScriptedModel
) -> None:
    """Servers have settings of their own, such as `cache_prompt`."""
    await client.complete(ask("x", cache_prompt=True, response_format={"type": "json_object"}))

    assert model.requests[0].body["cache_prompt"] is True
    assert model.requests[0].body["response_format"] == {"type": "json_object"}


async def test_leaving_the_block_stops_the_model(client: ModelClient, model: ScriptedModel) -> None:
    """A cancelled run must free the slot it holds."""
    model.when("count").say("word " * 1000, pause=0.01)

    async with client.stream(ask("count")) as chunks:
        async for _ in chunks:
            break
    await asyncio.to_thread(model.wait_until, lambda m: m.aborted == 1)

    assert model.words_sent < 1000


@pytest.mark.parametrize("how", ["reset", "close", "error", "malformed"])
async def test_stream_that_breaks_is_lost_not_ended(
    client: ModelClient, model: ScriptedModel, how: Break
) -> None:
    """Half an answer must never look like a whole one."""
    model.when("go").lose("one two three", after=2, how=how, pause=0.05)
    words: list[str] = []

    with pytest.raises(ModelLost):
        await text_of(client, ask("go"), words)

    assert "".join(words) == "one two "


async def test_nobody_there_is_unavailable() -> None:
    """The message names the address, so that people know where to look."""
    async with ModelClient("http://127.0.0.1:9/v1", KEY) as client:
        with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:9") as caught:
            await client.complete(ask("x"))

    assert caught.value.status is None


async def test_server_error_is_unavailable_and_says_why(
    client: ModelClient, model: ScriptedModel
) -> None:
    """503 while a model loads: the same request may be sent again."""
    model.loading = True

    with pytest.raises(ModelUnavailable, match="Loading model") as caught:
        await text_of(client, ask("x"), [])

    assert caught.value.status == 503


async def test_refusal_carries_status_and_body(client: ModelClient, model: ScriptedModel) -> None:
    """The caller decides by the code, people read the message."""
    model.when("long").refuse(400, "Too long.", type="invalid_request_error", code="too_long")

    with pytest.raises(ModelRefused, match=r"Too long\.") as caught:
        await client.complete(ask("long"))

    assert caught.value.status == 400
    assert caught.value.body["error"]["code"] == "too_long"


async def test_silence_ends_with_the_idle_timeout(model: ScriptedModel, serve: Serve) -> None:
    """A dead server must not hold a run for ever."""
    model.when("before").hang()
    model.when("within").hang("one two", after=1)
    async with ModelClient(f"{serve(model.app)}/v1", KEY, Timeouts(idle=1)) as client:
        with pytest.raises(ModelUnavailable, match="ReadTimeout"):
            await client.complete(ask("before"))
        with pytest.raises(ModelLost, match="ReadTimeout"):
            await text_of(client, ask("within"), [])


async def test_answer_that_is_no_completion_is_lost(
    client: ModelClient, model: ScriptedModel
) -> None:
    """A proxy's login page is not an answer."""
    model.when("x").answer(b"<html>")

    with pytest.raises(ModelLost, match="not a chat completion"):
        await client.complete(ask("x"))


@pytest.mark.parametrize("status", [200, 503])
async def test_answer_in_a_broken_encoding_is_lost(
    client: ModelClient, model: ScriptedModel, status: int
) -> None:
    """A proxy that says gzip and sends something else must not end a run with a traceback."""
    headers = {"content-encoding": "gzip"}
    model.when("x").answer(b"this is no gzip", status=status, headers=headers)

    with pytest.raises(ModelLost, match="cannot be read"):
        await client.complete(ask("x"))
    with pytest.raises(ModelLost, match="cannot be read" if status == 503 else "broke off"):
        await text_of(client, ask("x"), [])


async def test_models_lists_their_ids(client: ModelClient) -> None:
    """The agent asks which models there are."""
    assert await client.models() == ["small"]


async def test_wrong_key_is_refused(model: ScriptedModel, serve: Serve) -> None:
    """And the key is in no message."""
    async with ModelClient(f"{serve(model.app)}/v1", "sk-wrong") as client:
        with pytest.raises(ModelRefused) as caught:
            await client.models()

    assert caught.value.status == 401
    assert "sk-wrong" not in str(caught.value)


async def test_half_a_character_does_not_come_into_the_house(
    client: ModelClient, model: ScriptedModel
) -> None:
    """What cannot be written as UTF-8 would break every page and every request it is told in."""
    model.when("x").say("cut \ud83d here, whole \U0001f600 there")
    said: list[str] = []

    await text_of(client, ask("x"), said)

    assert "".join(said) == "cut ? here, whole \U0001f600 there"
