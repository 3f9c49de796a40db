"""The official Python client does the rest of what it can: what test_official_client.py leaves."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import BaseModel, Field

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.clients.conftest import Clients
from tests.integration.gateway.conftest import KEY, Lab
from tests.shown import Shown

TIME: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "time_now",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}


class River(BaseModel):
    """What the real model is held to."""

    name: str = Field(min_length=3, max_length=12)
    continent: Literal["Africa", "America", "Asia", "Europe"]
    length_km: int = Field(ge=1, le=9999)


def said(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


@pytest.fixture
def client(clients: Clients) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{clients.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def test_real_model_keeps_to_the_schema_of_a_class(client: openai.OpenAI) -> None:
    """`parse` sends the schema; the grammar makes even the smallest model's answer fit it."""
    answer = client.chat.completions.parse(
        model="smollm2", messages=said("Name a river."), response_format=River, max_tokens=200
    )

    assert isinstance(answer.choices[0].message.parsed, River)


def test_real_model_keeps_to_the_schema_in_a_stream(client: openai.OpenAI) -> None:
    """The same, word by word."""
    with client.chat.completions.stream(
        model="smollm2", messages=said("Name a river."), response_format=River, max_tokens=200
    ) as stream:
        answer = stream.get_final_completion()

    assert isinstance(answer.choices[0].message.parsed, River)


def test_real_model_says_json_when_asked_for_an_object(client: openai.OpenAI) -> None:
    """`json_object` has no schema, only the grammar of JSON."""
    answer = client.chat.completions.create(
        model="smollm2", messages=said("A small JSON object."), max_tokens=300, temperature=0,
        response_format={"type": "json_object"}, stop=["}"],
    )  # fmt: skip

    assert (answer.choices[0].message.content or "").lstrip().startswith("{")


def test_tool_results_go_back_in(client: openai.OpenAI) -> None:
    """The second half of a tool call: the calls and their results are part of the request."""
    first = client.chat.completions.create(
        model="small", messages=said("what time"), tools=[TIME], parallel_tool_calls=True
    )
    calls = first.choices[0].message.tool_calls or []
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": call.id, "content": "12:00"} for call in calls
    ]
    asked: Any = first.choices[0].message.model_dump(exclude_none=True)
    second = client.chat.completions.create(
        model="small", messages=[*said("what time"), asked, *results], tools=[TIME]
    )

    assert [json.loads(call.function.arguments) for call in calls if call.type == "function"] == [
        {"zone": "UTC"},
        {"zone": "CET"},
    ]
    assert second.choices[0].message.content == "It is noon."


def test_picture_reaches_the_model(client: openai.OpenAI, clients: Clients) -> None:
    """As a part of a message, whole and in the newer endpoint."""
    url = "data:image/png;base64,iVBORw0KGgo="
    chat = client.chat.completions.create(
        model="small",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "good day"},
                    {"type": "image_url", "image_url": {"url": url}},
                ],
            }
        ],
    )
    newer = client.responses.create(
        model="small",
        input=[
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "good day"},
                    {"type": "input_image", "image_url": url, "detail": "auto"},
                ],
            }
        ],
    )
    sent = [json.dumps(one.body) for one in clients.model.requests[-2:]]

    assert chat.choices[0].message.content == newer.output_text == "Good day to you."
    assert [url in body for body in sent] == [True, True]


def test_completions_whole_and_streamed(client: openai.OpenAI) -> None:
    """The older endpoint, which editors fill gaps with."""
    whole = client.completions.create(model="small", prompt="good day", suffix="!", max_tokens=8)
    with client.completions.create(
        model="small", prompt="good day", stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)

    assert whole.choices[0].text == "Good day to you."
    assert "".join(c.choices[0].text for c in chunks if c.choices) == "Good day to you."
    assert chunks[-1].usage is not None


def test_responses_whole_and_streamed(client: openai.OpenAI) -> None:
    """The newer endpoint: its text, its usage, and its events in their order."""
    whole = client.responses.create(model="small", input="good day", instructions="Be kind.")
    with client.responses.stream(model="small", input="good day") as stream:
        kinds = [event.type for event in stream]
        last = stream.get_final_response()

    assert whole.output_text == last.output_text == "Good day to you."
    assert whole.usage is not None
    assert whole.usage.output_tokens == 4
    assert kinds[0] == "response.created"
    assert kinds.index("response.output_item.added") < kinds.index("response.output_text.delta")
    assert kinds[-1] == "response.completed"


def test_responses_hold_the_real_model_to_a_schema(client: openai.OpenAI) -> None:
    """Its `text_format` is the same grammar."""
    answer = client.responses.parse(
        model="smollm2", input="Name a river.", text_format=River, max_output_tokens=200
    )

    assert isinstance(answer.output_parsed, River)


def test_several_choices_and_their_probabilities(client: openai.OpenAI) -> None:
    """`n`, `logprobs`, `seed` and `stop` reach the model and come back."""
    answer = client.chat.completions.create(
        model="small", messages=said("good day"), n=2, logprobs=True, seed=7, stop=["."]
    )

    assert [choice.message.content for choice in answer.choices] == ["Good day to you."] * 2
    found = answer.choices[0].logprobs
    assert found is not None
    assert found.content is not None
    assert [one.token for one in found.content] == ["Good ", "day ", "to ", "you."]


def test_no_usage_chunk_for_who_did_not_ask(client: openai.OpenAI) -> None:
    """Programs that read `choices[0]` of every chunk would fall over it."""
    with client.chat.completions.create(
        model="small", messages=said("good day"), stream=True
    ) as stream:
        chunks = list(stream)

    assert all(chunk.choices for chunk in chunks)


async def test_async_client_leaves_a_stream(clients: Clients) -> None:
    """Servers use this one; leaving it stops the model, too."""
    before = clients.model.aborted
    async with openai.AsyncOpenAI(base_url=f"{clients.url}/v1", api_key=KEY) as client:
        stream = await client.chat.completions.create(
            model="small", messages=said("a long story"), stream=True
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        await stream.close()

    clients.model.wait_until(lambda model: model.aborted == before + 1, timeout=60)
    assert clients.model.words_sent < 4000


@pytest.mark.parametrize(
    ("status", "sent", "said_no"),
    [
        *((status, 3, False) for status in (408, 409, 429, 500, 503)),
        *((status, 1, False) for status in (400, 403, 404, 413, 422)),
        *((status, 1, True) for status in (429, 500)),
    ],
)
def test_client_sends_again_only_what_may_help(
    lab: Lab, status: int, sent: int, *, said_no: bool
) -> None:
    """Its own retries: three times for "later", once for "no", and for a server's "not again"."""
    model = ScriptedModel()
    headers = {"x-should-retry": "false"} if said_no else {"retry-after-ms": "1"}
    model.when("go").refuse(status, headers=headers)
    url = f"{lab.gateway(lab.expert(model)).base_url}/v1"

    with (
        openai.OpenAI(base_url=url, api_key=KEY) as client,
        pytest.raises(openai.APIStatusError),
    ):
        client.chat.completions.create(model="small", messages=said("go"))

    assert len(model.requests) == sent


def test_how_to_is_true(clients: Clients, shown: Shown, tmp_path: Path) -> None:
    """What a user copies from docs/howto/connect-programs.md works as it stands."""
    ended = subprocess.run(
        [sys.executable, "-c", shown.take("docs/howto/connect-programs.md")],
        env=clients.environment(tmp_path), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert ended.stdout == "Good day to you.\n", ended.stderr
