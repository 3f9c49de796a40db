"""`/v1/realtime` with OpenAI's own client: real gateway, real agent, scripted models."""

import asyncio
import base64
import os
import subprocess
import sys

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hearth.openai_api.scripts import Break
from tests.integration.gateway.callers.conftest import House
from tests.integration.gateway.callers.realtime import talk
from tests.integration.gateway.conftest import KEY, SERVICE_KEY, caller, wait_until
from tests.shown import Shown

TEXT_EVENTS = [
    "conversation.item.added",
    "conversation.item.done",
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]
LOOK = {
    "type": "function",
    "name": "look",
    "description": "Look at a sensor.",
    "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
}


def url_of(house: House) -> str:
    return str(house.gateway.base_url)


async def test_text_is_answered_as_a_stream_of_valid_events(house: House) -> None:
    """The order is that of OpenAI's API; the second turn knows the first one."""
    house.small.when("my name").say("You are Ann.")
    house.small.when("Ann").say("Hello Ann.")
    async with talk(url_of(house)) as session:
        before = len(session.events)
        first = await session.asks("I am Ann.")
        order = session.types()[before:]
        second = await session.asks("What is my name?")

    assert order == TEXT_EVENTS
    assert first["status"] == "completed"
    assert first["output"][0]["content"] == [{"type": "output_text", "text": "Hello Ann."}]
    assert first["usage"]["output_tokens"] > 0
    assert second["output"][0]["content"][0]["text"] == "You are Ann."
    sent = house.small.requests[-1].body["messages"]
    assert [one["content"] for one in sent] == ["I am Ann.", "Hello Ann.", "What is my name?"]


async def test_settings_reach_the_model(house: House) -> None:
    """Of the session, and for one response instead of them."""
    house.small.when("hello").say("Good day.")
    async with talk(url_of(house)) as session:
        known = await session.update(instructions="Be brief.", max_output_tokens=7)
        await session.asks("hello")
        await session.send("response.create", response={"instructions": "Be long."})
        await session.gets("response.done")
    first, second = (one.body for one in house.small.requests)

    assert known["instructions"] == "Be brief."
    assert known["model"] == "small"
    assert first["messages"][0] == {"role": "system", "content": "Be brief."}
    assert first["max_tokens"] == 7
    assert second["messages"][0]["content"] == "Be long."


async def test_function_of_the_client_is_called_and_its_output_answered(house: House) -> None:
    """The model gets the functions of the session; their results are items of the client."""
    house.small.when(lambda asked: asked.messages[-1].role == "tool").say("It is warm.")
    house.small.when("garden").call_tool("look", {"where": "garden"})
    async with talk(url_of(house)) as session:
        await session.update(tools=[LOOK], tool_choice="required")
        called = await session.asks("How is the garden?")
        [call] = called["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "21 C"}
        await session.send("conversation.item.create", item=output)
        await session.send("response.create", response={"tool_choice": "none"})
        answered = (await session.gets("response.done"))["response"]
        arguments = session.joined("response.function_call_arguments.delta")
    first, second = (one.body for one in house.small.requests)

    assert (call["type"], call["name"]) == ("function_call", "look")
    assert call["arguments"] == arguments == '{"where": "garden"}'
    assert first["tools"][0]["function"]["name"] == "look"
    assert (first["tool_choice"], second["tool_choice"]) == ("required", "none")
    asked, told = second["messages"][-2:]
    assert asked["tool_calls"][0]["id"] == told["tool_call_id"] == call["call_id"]
    assert told["content"] == "21 C"
    assert answered["output"][0]["content"][0]["text"] == "It is warm."


async def test_cancelled_response_stops_the_model(house: House) -> None:
    """And what was written of it stays in the conversation."""
    house.small.when("story").hang("once upon a time", after=2)
    house.small.when("go on").say("Well.")
    async with talk(url_of(house)) as session:
        await session.says("a story")
        await session.send("response.create")
        await session.gets("response.output_text.delta")
        second = await session.refused("response.create")
        await session.send("response.cancel")
        done = (await session.gets("response.done"))["response"]
        await asyncio.to_thread(house.small.wait_until, lambda model: model.running == 0)
        again = await session.refused("response.cancel")
        await session.asks("go on")
    kept = house.small.requests[-1].body["messages"][1]

    assert second["code"] == "conversation_already_has_active_response"
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert done["output"][0]["status"] == "incomplete"
    assert again["code"] == "response_cancel_not_active"
    assert (kept["role"], kept["content"][:4]) == ("assistant", "once")


async def test_agent_answers_and_its_run_ends_with_the_connection(house: House) -> None:
    """A client that disconnects must not leave a run behind."""
    house.small.when("story").hang("once upon a time", after=2)
    house.small.when("hello").say("Good day.")
    async with talk(url_of(house), "agent") as session:
        answer = await session.asks("hello")
        await session.says("a story")
        await session.send("response.create")
        await session.gets("response.output_text.delta")
        assert house.small.running == 1
    await asyncio.to_thread(house.small.wait_until, lambda model: model.running == 0)
    with caller(house.agent_url, SERVICE_KEY) as agent:
        wait_until(lambda: agent.get("/api/runs").json()["runs"][0]["status"] == "cancelled", 60)

    assert answer["output"][0]["content"][0]["text"] == "Good day."


async def test_items_are_shown_deleted_and_placed(house: House) -> None:
    """The client may keep the conversation short."""
    house.small.when("say").say("Yes.")
    async with talk(url_of(house)) as session:
        for id, before in (("b", None), ("a", "root"), ("c", "a")):
            content = [{"type": "input_text", "text": f"say {id}"}]
            item = {"id": id, "type": "message", "role": "user", "content": content}
            more = {} if before is None else {"previous_item_id": before}
            await session.send("conversation.item.create", item=item, **more)
        await session.send("conversation.item.retrieve", item_id="a")
        found = (await session.gets("conversation.item.retrieved"))["item"]
        await session.send("conversation.item.delete", item_id="b")
        await session.gets("conversation.item.deleted")
        await session.send("response.create")
        await session.gets("response.done")
        beside = {"conversation": "none", "input": [{"type": "item_reference", "id": "c"}]}
        await session.send("response.create", response=beside)
        out_of_band = (await session.gets("response.done"))["response"]
    first, second = (one.body["messages"] for one in house.small.requests)

    assert found["content"][0]["text"] == "say a"
    assert [one["content"] for one in first] == ["say a", "say c"]
    assert [one["content"] for one in second] == ["say c"]
    assert out_of_band["conversation_id"] is None


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"type": "session.guess"}, "unknown_event"),
        ({"type": "session.update"}, "missing_required_parameter"),
        ({"type": "session.update", "session": {"model": "big"}}, "invalid_value"),
        ({"type": "session.update", "session": {"colour": 1}}, "unknown_parameter"),
        (
            {
                "type": "session.update",
                "session": {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
            },
            "invalid_value",
        ),
        ({"type": "conversation.item.create", "item": {"type": "song"}}, "invalid_value"),
        ({"type": "conversation.item.delete", "item_id": "x"}, "item_not_found"),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "invalid_value"),
        ({"type": "input_audio_buffer.append", "audio": "AAAA"}, "invalid_value"),
        ({"type": "input_audio_buffer.append", "audio": "AAA="}, "speech_unavailable"),
        ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty"),
        ({"type": "response.cancel"}, "response_cancel_not_active"),
    ],
)
async def test_wrong_event_is_an_error_and_the_session_goes_on(
    house: House, event: dict[str, object], code: str
) -> None:
    """The error names the event, so that a program can tell which of many it was."""
    house.small.when("hello").say("Good day.")
    async with talk(url_of(house)) as session:
        error = await session.refused(**event)  # type: ignore[arg-type]
        answer = await session.asks("hello")

    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert error["event_id"] == "mine"
    assert answer["status"] == "completed"


@pytest.mark.parametrize(
    ("message", "code"),
    [("{", "invalid_json"), ("[]", "invalid_event"), ("[" * 10_000, "invalid_json")],
)
async def test_message_that_is_no_event_is_an_error(house: House, message: str, code: str) -> None:
    """And not the end of a conversation."""
    async with talk(url_of(house)) as session:
        await session.connection.send_raw(message)
        error = (await session.gets("error"))["error"]

    assert error["code"] == code


async def test_buffer_has_a_limit(house: House) -> None:
    """A client that never commits does not fill the memory."""
    second = base64.b64encode(bytes(48_000 * 30)).decode()
    async with talk(url_of(house)) as session:
        await session.update(audio={"input": {"turn_detection": None}})
        for _ in range(4):
            await session.send("input_audio_buffer.append", audio=second)
        error = await session.refused("input_audio_buffer.append", audio=second)
        await session.send("input_audio_buffer.clear")
        await session.gets("input_audio_buffer.cleared")
        await session.send("input_audio_buffer.append", audio=second)
        again = await session.refused("input_audio_buffer.guess")

    assert error["code"] == "input_audio_buffer_too_large"
    assert again["code"] == "unknown_event"


async def test_failed_response_has_the_words_of_the_gateway(house: House) -> None:
    """A model that refuses does not end the session."""
    house.small.when("refuse").refuse(400, "Too long.", code="context_length_exceeded")
    house.small.when("hello").say("Good day.")
    async with talk(url_of(house)) as session:
        failed = await session.asks("refuse")
        answer = await session.asks("hello")

    assert failed["status"] == "failed"
    assert failed["status_details"]["error"]["code"] == "context_length_exceeded"
    assert "Too long." in failed["status_details"]["error"]["message"]
    assert answer["status"] == "completed"


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("how", ["reset", "close", "error", "malformed", "half-closed"])
async def test_fault_of_a_server_fails_the_response(house: House, how: Break, after: int) -> None:
    """The faults of the other families: none looks like a whole answer, and the session goes on."""
    house.small.when(f"{how} {after}").lose("one two three", after=after, how=how)
    house.small.when("hello").say("Good day.")
    async with talk(url_of(house)) as session:
        failed = await session.asks(f"{how} {after}")
        answer = await session.asks("hello")

    assert failed["status"] == "failed"
    assert failed["status_details"]["error"]["message"]
    assert answer["status"] == "completed"


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("/v1/realtime?model=small", "sk-wrong", 401),
        ("/v1/realtime?model=smal", KEY, 404),
        ("/v1/realtime", KEY, 400),
        ("/v1/other?model=small", KEY, 404),
    ],
)
async def test_session_is_refused_with_a_status(
    house: House, path: str, key: str, status: int
) -> None:
    """Before the WebSocket exists, in the form of every error."""
    headers = {"authorization": f"Bearer {key}"}
    url = url_of(house).replace("http", "ws").rstrip("/") + path
    with pytest.raises(InvalidStatus) as refused:
        await connect(url, additional_headers=headers)

    assert refused.value.response.status_code == status
    assert b'"error"' in refused.value.response.body
    assert refused.value.response.headers["x-hearth-route"].startswith("refused: ")


async def test_key_has_its_models_scopes_and_budget(house: House) -> None:
    """A session counts as one request, and the tokens of its responses count for its key."""
    house.small.when("hello").say("Good day.")
    with house.key("orator", models=("small",), scopes=("chat",), tokens_per_day=1) as orator:
        key = orator.headers["authorization"].removeprefix("Bearer ")
        for model in ("big", "agent"):
            with pytest.raises(InvalidStatus, match="403"):
                async with talk(url_of(house), model, key=key):
                    pass
        async with talk(url_of(house), key=key) as session:
            first = await session.asks("hello")
            await asyncio.to_thread(wait_until, lambda: house.used("orator") > 0)
            second = await session.asks("hello")
        with pytest.raises(InvalidStatus, match="429"):
            async with talk(url_of(house), key=key):
                pass

    assert first["status"] == "completed"
    assert second["status_details"]["error"]["code"] == "insufficient_quota"
    assert "orator" in second["status_details"]["error"]["message"]
    assert len(house.small.requests) == 1


async def test_closed_key_ends_its_session(house: House) -> None:
    """With its response: revoking a key has an effect now."""
    house.small.when("story").hang("once upon a time", after=2)
    with house.key("lost") as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        async with talk(url_of(house), key=key) as session:
            await session.says("a story")
            await session.send("response.create")
            await session.gets("response.output_text.delta")
            house.store.revoke("lost")
            with pytest.raises(ConnectionClosed) as closed:
                await session.gets("session.ended")  # There is no such event.
    await asyncio.to_thread(house.small.wait_until, lambda model: model.running == 0)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


async def test_key_has_a_number_of_sessions(house: House) -> None:
    """A program that forgets to close them does not use up the house."""
    with house.key("many") as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        async with AsyncOpenAI(base_url=f"{url_of(house)}/v1", api_key=key) as openai:
            open_ones = [await openai.realtime.connect(model="small").enter() for _ in range(8)]
            with pytest.raises(InvalidStatus, match="429") as refused:
                await openai.realtime.connect(model="small").enter()
            for one in open_ones:
                await one.close()

    assert b"MOE_GATEWAY_REALTIME_PER_KEY" in refused.value.response.body


async def test_runs_are_deleted_where_nothing_is_kept(house: House) -> None:
    """The setting for voice conversations holds for these sessions, too."""
    house.small.when("secret").say("I will forget it.")
    kept = house.settings
    house.settings = kept.model_copy(update={"voice_transcripts": False})
    house.restart()
    try:
        async with talk(url_of(house), "agent") as session:
            answer = await session.asks("a secret")
        with caller(house.agent_url, SERVICE_KEY) as agent:
            wait_until(lambda: "a secret" not in agent.get("/api/runs").text, 60)
    finally:
        house.settings = kept
        house.restart()

    assert answer["status"] == "completed"


def test_how_to_is_true(house: House, shown: Shown) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    house.small.when("good day").say("Good day to you.")
    environment = {"OPENAI_BASE_URL": f"{url_of(house)}/v1", "OPENAI_API_KEY": KEY}
    program = shown.take("docs/howto/connect-programs.md")
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip

    assert ended.stdout == "Good day to you.", ended.stderr
