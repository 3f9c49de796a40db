"""The official `openai` client is the judge of what OpenAI-compatible means."""

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import KEY, Lab

ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "go on"}]
TOOLS: list[ChatCompletionFunctionToolParam] = [
    {"type": "function", "function": {"name": "time.now", "parameters": {"type": "object"}}}
]


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def client(lab: Lab, model: ScriptedModel) -> Iterator[openai.OpenAI]:
    gateway = lab.gateway(
        lab.expert(model, stops_unary=False), lab.agent(ScriptedModel("agent")), max_body_bytes=4096
    )
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.mark.proves("004-14")
def test_client_gets_a_whole_answer_and_a_streamed_one(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """The same words both ways, with their usage."""
    model.when("go").say("Good day to you.", pause=0.01)

    whole = client.chat.completions.create(model="small", messages=ASK)
    with client.chat.completions.create(
        model="auto", messages=ASK, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)

    assert whole.choices[0].message.content == "Good day to you."
    assert whole.choices[0].finish_reason == "stop"
    words = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(words) == "Good day to you."
    assert len([word for word in words if word]) == 4
    used = [answer.usage.completion_tokens for answer in (whole, chunks[-1]) if answer.usage]
    assert used == [4, 4]


def test_client_accumulates_streamed_tool_calls(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """Its own accumulator needs each delta's index."""
    model.when("go").call_tools(("time.now", {"zone": "UTC"}), ("time.now", {"zone": "CET"}))

    with client.chat.completions.stream(
        model="small",
        messages=ASK,
        tools=TOOLS,
    ) as stream:
        calls = stream.get_final_completion().choices[0].message.tool_calls or []

    assert [call.function.arguments for call in calls] == ['{"zone": "UTC"}', '{"zone": "CET"}']
    assert len({call.id for call in calls}) == 2


def test_client_reads_tool_calls_of_a_whole_answer(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """Put together by the gateway."""
    model.when("go").call_tool("time.now", {"zone": "UTC"})

    answer = client.chat.completions.create(model="small", messages=ASK, tools=TOOLS)

    choice = answer.model_dump()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {
        "name": "time.now",
        "arguments": '{"zone": "UTC"}',
    }


def test_client_lists_models(client: openai.OpenAI) -> None:
    """What a person chooses from in any chat program."""
    assert [model.id for model in client.models.list()] == ["auto", "small", "agent"]
    assert client.models.retrieve("small").id == "small"


def test_client_reads_our_headers(client: openai.OpenAI) -> None:
    """Who answered, why, and the id to ask about."""
    raw = client.chat.completions.with_raw_response.create(model="auto", messages=ASK)

    assert raw.headers["x-hearth-expert"] == "small"
    assert raw.parse()._request_id == raw.headers["x-request-id"]


def test_client_embeds(client: openai.OpenAI) -> None:
    """It asks for base64 by itself and decodes it."""
    answer = client.embeddings.create(model="small", input=["abc", "de"])

    assert [item.embedding for item in answer.data] == [[3.0, 0.5], [2.0, 0.5]]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (403, openai.PermissionDeniedError),
        (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_client_raises_its_class_for_each_status(
    client: openai.OpenAI, model: ScriptedModel, status: int, kind: type[openai.APIStatusError]
) -> None:
    """Programs catch these classes, and show the message."""
    model.when("go").refuse(status, "Because.", code="why")

    with pytest.raises(kind, match=r"Because\.") as caught:
        client.chat.completions.create(model="small", messages=ASK)

    assert caught.value.code == "why"


def test_client_raises_its_class_for_our_own_refusals(client: openai.OpenAI) -> None:
    """A wrong key, a wrong model, too large a body."""
    with pytest.raises(openai.AuthenticationError, match="Incorrect API key provided"):
        client.with_options(api_key="sk-wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="Did you mean 'small'"):
        client.chat.completions.create(model="smallx", messages=ASK)
    with pytest.raises(openai.APIStatusError, match="MAX_BODY_BYTES"):
        client.embeddings.create(model="small", input="x" * 5000)


def test_client_raises_when_a_stream_breaks(client: openai.OpenAI, model: ScriptedModel) -> None:
    """Half an answer must not pass for a whole one."""
    model.when("go").lose("one two three", after=2, how="reset", pause=0.05)
    words: list[str] = []

    with (
        client.chat.completions.create(model="small", messages=ASK, stream=True) as stream,
        pytest.raises(openai.APIError, match="reset"),
    ):
        words.extend(chunk.choices[0].delta.content or "" for chunk in stream)


def test_client_that_retries_gets_through_while_a_model_loads(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """503 with Retry-After is what its retries are for."""
    model.when("go").refuse(503, headers={"retry-after": "0"}).say("Now.")

    patient = client.with_options(max_retries=2)
    answer = patient.chat.completions.create(model="small", messages=ASK)

    assert answer.choices[0].message.content == "Now."
    assert len(model.requests) == 2


def test_leaving_a_stream_stops_the_model(client: openai.OpenAI, model: ScriptedModel) -> None:
    """Closing the client's stream is all that a program does to stop."""
    model.when("go").say("word " * 1000, pause=0.01)

    with client.chat.completions.create(model="small", messages=ASK, stream=True) as stream:
        next(iter(stream))
    model.wait_until(lambda m: m.aborted == 1)

    assert model.words_sent < 1000
