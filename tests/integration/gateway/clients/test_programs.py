"""Programs that are too large to install: their requests, as their own code builds them.

Read off Home Assistant's `openai_conversation/entity.py` (commit 0150749b), Open WebUI's
`routers/openai.py` (commit 004a45f5) and Continue's `openai-adapters/src/apis/OpenAI.ts` (commit
023111db). Each test does with the answer what the program does.
"""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.integration.gateway.api.speech import SOUND, Speech
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import CHAT, KEY, Json, Lab, caller, events, text_of

EXTENDED_INPUTS = [
    "tests/integration/gateway/api/speech.py",
    "tests/integration/gateway/clients/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/errors.py",
    "moe_gateway/responses/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

LIGHT: Json = {
    "type": "function",
    "name": "time_now",
    "description": "The time in a zone.",
    "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    "strict": False,
}
WEBUI_HEADERS = {
    "X-OpenWebUI-User-Name": "Ada%20L",
    "X-OpenWebUI-User-Id": "8c1f",
    "X-OpenWebUI-User-Email": "ada@home.example",
    "X-OpenWebUI-User-Role": "user",
    "X-OpenWebUI-Chat-Id": "chat-1",
    "Accept-Encoding": "gzip, deflate, br",
}


@pytest.fixture
def http(clients: Clients) -> Iterator[httpx2.Client]:
    with caller(clients.url) as client:
        yield client


def assist(messages: list[Json]) -> Json:
    """What Home Assistant's conversation agent asks with."""
    return {
        "model": "small",
        "input": messages,
        "max_output_tokens": 3000,
        "top_p": 1.0,
        "temperature": 1.0,
        "user": "01K9",
        "store": False,
        "tools": [LIGHT],
        "stream": True,
    }


def turn(role: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": text}


async def heard(client: openai.AsyncOpenAI, messages: list[Json]) -> tuple[str, list[Json]]:
    """One turn as Home Assistant reads it: text by deltas, calls as soon as each is whole."""
    text = ""
    calls: list[Json] = []
    current: Any = None
    fields: Any = assist(messages)
    async for event in await client.responses.create(**fields):
        if event.type == "response.output_item.added" and event.item.type == "function_call":
            current = event.item
        elif event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "response.function_call_arguments.delta":
            current.arguments += event.delta
        elif event.type == "response.function_call_arguments.done":
            calls.append({"call_id": current.call_id, "arguments": current.arguments})
    return text, calls


async def test_home_assistant_has_a_turn_with_tools(clients: Clients) -> None:
    """Two calls in one turn, their results, then the words that are spoken."""
    client = openai.AsyncOpenAI(base_url=f"{clients.url}/v1", api_key=KEY)
    async with client:
        assert "small" in [
            model.id async for model in client.with_options(timeout=10).models.list()
        ]
        messages = [turn("developer", "You control a home."), turn("user", "what time")]
        text, calls = await heard(client, messages)
        assert text == ""
        for call in calls:
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": '"12"'}
            messages += [{"type": "function_call", "name": "time_now", **call}, result]
        text, more = await heard(client, messages)

    assert [json.loads(call["arguments"]) for call in calls] == [{"zone": "UTC"}, {"zone": "CET"}]
    assert (text, more) == ("It is noon.", [])


async def test_home_assistant_asks_for_structured_data(clients: Clients) -> None:
    """Its AI tasks send a schema and read the text as JSON; here the real model is asked."""
    schema = {
        "type": "object",
        "properties": {"room": {"type": "string", "maxLength": 8}},
        "required": ["room"],
        "additionalProperties": False,
        "strict": True,
    }
    fields: Any = {
        **assist([turn("user", "Which room?")]),
        "model": "smollm2",
        "text": {"format": {"type": "json_schema", "name": "room", "schema": schema}},
        "max_output_tokens": 200,
    }
    del fields["tools"]
    async with openai.AsyncOpenAI(base_url=f"{clients.url}/v1", api_key=KEY) as client:
        said = "".join(
            [
                event.delta
                async for event in await client.responses.create(**fields)
                if event.type == "response.output_text.delta"
            ]
        )

    assert json.loads(said).keys() == {"room"}


async def test_home_assistant_is_told_why_it_is_refused(clients: Clients) -> None:
    """It shows rate limits as such, and everything else by its message."""
    fields: Any = assist([turn("user", "refuse")])
    async with openai.AsyncOpenAI(
        base_url=f"{clients.url}/v1", api_key=KEY, max_retries=0
    ) as client:
        with pytest.raises(openai.RateLimitError, match="Too many"):
            await client.responses.create(**fields)


def test_open_webui_fills_its_list_of_models(http: httpx2.Client) -> None:
    """It takes `data` of the answer and merges it with its own settings by `id`."""
    found = http.get("/v1/models", headers=WEBUI_HEADERS).json()

    assert {model["id"] for model in found["data"]} >= {"auto", "small", "smollm2"}
    assert found["object"] == "list"


def test_open_webui_streams_a_chat(http: httpx2.Client) -> None:
    """It passes our lines on to the browser as they are, usage and all."""
    body = {
        "stream": True,
        "model": "small",
        "messages": [{"role": "user", "content": "good day"}],
        "stream_options": {"include_usage": True},
        "temperature": 0.8,
    }
    with http.stream("POST", CHAT, json=body, headers=WEBUI_HEADERS) as answer:
        found = events(answer)

    assert "text/event-stream" in answer.headers["content-type"]
    assert "content-encoding" not in answer.headers
    assert text_of(found) == "Good day to you."
    assert found[-2]["usage"]["completion_tokens"] == 4
    assert found[-1] == "[DONE]"


def test_open_webui_puts_tool_calls_together(http: httpx2.Client) -> None:
    """By their index, from as many pieces as there are."""
    function = {key: LIGHT[key] for key in ("name", "description", "parameters")}
    body = {
        "stream": True,
        "model": "small",
        "messages": [{"role": "user", "content": "what time"}],
        "tools": [{"type": "function", "function": function}],
    }
    with http.stream("POST", CHAT, json=body, headers=WEBUI_HEADERS) as answer:
        found = events(answer)

    assert zones_of(found) == ["UTC", "CET"]
    assert found[-1] == "[DONE]"


def zones_of(found: list[Any]) -> list[str]:
    """The arguments of streamed calls, put together by index as both programs do it."""
    calls: dict[int, str] = {}
    for chunk in found[:-1]:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls") or []:
                calls.setdefault(call["index"], "")
                calls[call["index"]] += call["function"].get("arguments", "")
    return [json.loads(arguments)["zone"] for arguments in calls.values()]


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_button_that_stops_an_answer_stops_the_model(
    http: httpx2.Client, clients: Clients, path: str
) -> None:
    """Open WebUI's, under a chat; Continue leaves a completion as soon as one types on."""
    before = clients.model.aborted
    text = "a story without end"
    words: Json = {"messages": [{"role": "user", "content": text}]} if path == CHAT else {}
    body = {"model": "small", "stream": True, "prompt": text, **words}
    with http.stream("POST", path, json=body, headers=WEBUI_HEADERS) as answer:
        next(line for line in answer.iter_lines() if "once" in line)

    clients.model.wait_until(lambda model: model.aborted > before, timeout=60)
    assert clients.model.requests[-1].outcome == "aborted"


def test_open_webui_hears_and_speaks(lab: Lab) -> None:
    """A form with the file and the model; a text whose sound it keeps; the message of an error."""
    ears, voice = (lab.at(lab.serve(Speech(kind)), speech=kind) for kind in ("stt", "tts"))
    http = lab.gateway(ears, voice)
    heard = http.post(
        "/v1/audio/transcriptions",
        files={"file": ("1f3c.wav", SOUND, "audio/wav")},
        data={"model": "whisper-1"},
        headers=WEBUI_HEADERS,
    )
    spoken = http.post(
        "/v1/audio/speech",
        json={"input": "Good day.", "voice": "alloy", "model": "tts-1"},
        headers=WEBUI_HEADERS,
    )
    wrong = http.post("/v1/audio/speech", json={"input": "x", "voice": "alloy", "model": "tts-9"})

    assert heard.json()["text"] == "hello house"
    assert spoken.content == SOUND
    assert wrong.status_code == 404
    assert "tts-9" in wrong.json()["error"]["message"]


def test_open_webui_makes_a_title(http: httpx2.Client) -> None:
    """Its tasks ask once more, whole, with `max_completion_tokens` and a JSON answer in mind."""
    body = {
        "model": "small",
        "messages": [{"role": "user", "content": "good day"}],
        "stream": False,
        "max_completion_tokens": 1000,
    }
    answer = http.post(CHAT, json=body, headers=WEBUI_HEADERS).json()

    assert answer["choices"][0]["message"]["content"] == "Good day to you."


def test_open_webui_embeds_documents(http: httpx2.Client) -> None:
    """A batch of texts; it reads `data[].embedding` as lists of numbers."""
    body = {"input": ["a", "bc"], "model": "small"}
    found = http.post("/v1/embeddings", json=body, headers=WEBUI_HEADERS).json()

    assert [one["embedding"] for one in found["data"]] == [[1.0, 0.5], [2.0, 0.5]]


def test_open_webui_shows_the_message_of_an_error(http: httpx2.Client) -> None:
    """It looks for `error` in the body and shows what it finds there."""
    body = {"model": "smal", "messages": [{"role": "user", "content": "x"}], "stream": True}
    answer = http.post(CHAT, json=body, headers=WEBUI_HEADERS)

    assert answer.status_code == 404
    assert "Did you mean 'small'" in answer.json()["error"]["message"]


def continued(text: str, **fields: Any) -> Json:
    """What Continue sends for a chat: usage in every stream, and the key in two headers."""
    messages = [
        {"role": "system", "content": "You are in an editor."},
        {"role": "user", "content": [{"type": "text", "text": text}]},
    ]
    usage = {"include_usage": True}
    return {
        "model": "small",
        "messages": messages,
        "stream": True,
        "stream_options": usage,
    } | fields


def test_continue_chats_with_tools(http: httpx2.Client) -> None:
    """It puts calls together by their index, and shows the usage at the end."""
    function = {key: LIGHT[key] for key in ("name", "description", "parameters")}
    body = continued("what time", tools=[{"type": "function", "function": function}])
    with http.stream("POST", CHAT, json=body, headers={"x-api-key": KEY}) as answer:
        found = events(answer)

    assert zones_of(found) == ["UTC", "CET"]
    assert found[-2]["usage"]["total_tokens"] > 0


def test_continue_shows_the_message_of_an_error(http: httpx2.Client) -> None:
    """Also where a stream was asked for: by its status, before anything else."""
    answer = http.post(CHAT, json=continued("refuse"), headers={"x-api-key": KEY})

    assert answer.status_code == 429
    assert answer.json()["error"]["message"] == "Too many."


def test_continue_completes_code(http: httpx2.Client) -> None:
    """Autocompletion: the legacy endpoint, streamed, with stop words."""
    body = {
        "model": "small",
        "prompt": "<fim_prefix>good day<fim_suffix>",
        "max_tokens": 64,
        "temperature": 0.01,
        "stop": ["<fim_prefix>", "\n\n"],
        "stream": True,
    }
    with http.stream("POST", "/v1/completions", json=body) as answer:
        found = events(answer)

    text = "".join(chunk["choices"][0]["text"] for chunk in found[:-1])
    assert text == "Good day to you."


def test_continue_embeds_the_code_base(http: httpx2.Client) -> None:
    """It goes through openai-node, which asks for base64."""
    body = {"model": "small", "input": ["def f():", "x"], "encoding_format": "base64"}
    found = http.post("/v1/embeddings", json=body).json()

    first = base64.b64decode(found["data"][0]["embedding"])
    assert struct.unpack(f"<{len(first) // 4}f", first) == (8.0, 0.5)
