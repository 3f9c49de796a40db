"""`/v1/responses` with the official client: a chat that looks like a response."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import ResponseInputParam, ToolParam
from pydantic import BaseModel

from hearth.openai_api.scripts import Script
from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, KEY, Json, Lab

PATH = "/v1/responses"
TOOL: ToolParam = {
    "type": "function",
    "name": "weather",
    "description": "Tells it.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    "strict": True,
}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    return lab.gateway(lab.expert(model, stops_unary=False, slots=4))


@pytest.fixture
def client(gateway: httpx2.Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def test_whole_response_is_what_the_client_expects(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """Text, usage, model and what was asked, under the names of this API."""
    model.when("hello").say("Good day to you.", thoughts="They greet me.")

    answer = client.responses.create(
        model="auto",
        instructions="Be polite.",
        input="hello",
        max_output_tokens=50,
        temperature=0.5,
    )

    assert answer.output_text == "Good day to you."
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.status == "completed"
    assert answer.model_dump()["store"] is True
    assert answer.instructions == "Be polite."
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.total_tokens) == (3, 3 + 7)
    sent = model.requests[0].body
    assert sent["messages"] == [
        {"role": "system", "content": "Be polite."},
        {"role": "user", "content": "hello"},
    ]
    assert (sent["max_tokens"], sent["temperature"]) == (50, 0.5)
    assert "input" not in sent


def test_streamed_response_has_every_event_in_its_order(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """The client's own helper follows the events and refuses those that come out of turn."""
    model.when("hello").say("one two three", thoughts="let me see")

    with client.responses.stream(model="small", input="hello") as stream:
        events = list(stream)
        final = stream.get_final_response()

    kinds = [event.type for event in events]
    assert kinds[:3] == [
        "response.created", "response.in_progress", "response.output_item.added"
    ]  # fmt: skip
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_text.delta") == 3
    assert (
        kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 2
    )
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == "one two three"
    assert final.usage is not None
    assert final.usage.output_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
def test_calls_go_out_and_their_results_come_back(
    client: openai.OpenAI, model: ScriptedModel, *, stream: bool
) -> None:
    """Two calls at once, with arguments in pieces, then an answer that knows both results."""
    model.when("where").call_tools(
        ("weather", {"place": "Oslo"}), ("weather", {"place": "Rome " * 5})
    )
    model.when(lambda request: request.messages[-1].role == "tool").say("Cold, and warm.")
    conversation: ResponseInputParam = [{"role": "user", "content": "where is it warm?"}]

    if stream:
        with client.responses.stream(model="small", input=conversation, tools=[TOOL]) as events:
            first: Any = events.get_final_response()
    else:
        first = client.responses.create(model="small", input=conversation, tools=[TOOL])
    calls = [item for item in first.output if item.type == "function_call"]
    conversation += first.output
    for call in calls:
        conversation.append(
            {"type": "function_call_output", "call_id": call.call_id, "output": "5 degrees"}
        )
    second = client.responses.create(model="small", input=conversation, tools=[TOOL])

    assert [json.loads(call.arguments)["place"] for call in calls] == ["Oslo", "Rome " * 5]
    assert second.output_text == "Cold, and warm."
    sent = model.requests[-1].body["messages"]
    assert [turn["role"] for turn in sent] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == [call.call_id for call in calls]
    assert model.requests[0].body["tools"][0]["function"]["name"] == "weather"


class Place(BaseModel):
    """What the client shall parse the answer to."""

    city: str


def test_schema_reaches_the_server_and_the_answer_is_parsed(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """`responses.parse` sends `text.format`; chat servers know `response_format`."""
    model.when("where").say('{"city": "Oslo"}')

    answer = client.responses.parse(model="small", input="where?", text_format=Place)

    assert answer.output_parsed == Place(city="Oslo")
    wanted = model.requests[0].body["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["schema"]["properties"].keys() == {"city"}


def test_pictures_and_every_kind_of_turn_are_mapped(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """Parts have other names here; roles that chat servers do not know are told as system."""
    url = "data:image/png;base64,AAAA"
    turns: ResponseInputParam = [
        {"role": "developer", "content": "Short."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": url, "detail": "low"},
            ],
        },
    ]
    client.responses.create(model="small", input=turns)

    sent = model.requests[0].body["messages"]
    assert sent[0] == {"role": "system", "content": "Short."}
    assert sent[1]["content"][1] == {
        "type": "image_url", "image_url": {"url": url, "detail": "low"}
    }  # fmt: skip


def shown(*parts: Json) -> list[Json]:
    """A conversation in which a tool was asked for the screen, and has answered so."""
    call = {"call_id": "c", "name": "screen", "arguments": "{}"}
    return [
        {"role": "user", "content": "look"},
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": "c", "output": [*parts]},
    ]


SAID = {"type": "input_text", "text": "The screen: "}
SCREEN = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


def test_picture_of_a_tool_reaches_an_expert_that_sees(lab: Lab) -> None:
    """A model that was shown nothing would answer as if it had seen it. Words alone stay one text,
    and go to the cheapest expert."""
    blind, eyes = ScriptedModel(), ScriptedModel()
    gateway = lab.gateway(lab.expert(blind), lab.expert(eyes, "eyes", vision=True, cost=30))
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as client:
        turns: Any = [shown(SCREEN), shown(SAID, SCREEN), shown(SAID, SAID)]
        for one in turns:
            client.responses.create(model="auto", input=one)

    sent = [one.body["messages"][-1] for one in (*eyes.requests, *blind.requests)]
    assert (len(eyes.requests), len(blind.requests)) == (2, 1)
    picture = {"type": "image_url", "image_url": {"url": SCREEN["image_url"]}}
    words = {"type": "text", "text": SAID["text"]}
    assert [one["content"] for one in sent] == [[picture], [words, picture], SAID["text"] * 2]
    assert {(one["role"], one["tool_call_id"]) for one in sent} == {("tool", "c")}


def test_address_in_the_result_of_a_tool_is_refused(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """A server would fetch it from inside of the house, whoever has named it."""
    screen = {**SCREEN, "image_url": "http://10.0.0.1/cat.png"}

    answer = gateway.post(PATH, json={"model": "small", "input": shown(SAID, screen)})

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "address_not_allowed"
    assert model.requests == []


@pytest.mark.parametrize("frame", [b"\xff\xfb\x90\x64", b"\xff\xf3\x84\xc4"])
@pytest.mark.parametrize(("path", "field"), [(CHAT, "messages"), (PATH, "input")])
def test_sound_goes_out_as_it_came(
    gateway: httpx2.Client, model: ScriptedModel, frame: bytes, path: str, field: str
) -> None:
    """MP3 of the first and of the second MPEG: in base64, both begin as some addresses do."""
    data = b64encode(frame + bytes(400)).decode()
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}

    said = {"model": "small", field: [{"role": "user", "content": [part]}]}
    answer = gateway.post(path, json=said)

    assert answer.status_code == 200, answer.text
    assert model.requests[0].body["messages"][0]["content"] == [part]


def test_answer_that_was_cut_short_says_so(client: openai.OpenAI, model: ScriptedModel) -> None:
    """A program must not take half a sentence for the end."""
    model.when("x").say("one two", finish="length")

    answer = client.responses.create(model="small", input="x")

    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("how", ["reset", "close", "malformed", "error"])
def test_stream_that_breaks_raises_in_the_client(
    client: openai.OpenAI, model: ScriptedModel, how: Any
) -> None:
    """After its first words: `response.failed` with them, then the error that clients raise."""
    model.when("go").lose("one two three", after=2, how=how, pause=0.02)
    seen: list[Any] = []

    with (
        client.responses.create(model="small", input="go", stream=True) as stream,
        pytest.raises(openai.APIError),
    ):
        seen.extend(stream)

    assert seen[-1].type == "response.failed"
    assert seen[-1].response.error.message
    assert seen[-1].response.output[0].content[0].text.startswith("one ")


def test_instance_that_breaks_before_its_first_word_is_passed_over(lab: Lab) -> None:
    """The next one answers, and its events begin at the beginning."""
    first, second = ScriptedModel(), ScriptedModel()
    first.when("go").lose(how="reset")
    second.when("go").say("here")
    gateway = lab.gateway(lab.expert(first), lab.expert(second))

    answer = gateway.post(PATH, json={"model": "small", "input": "go", "stream": True}).text

    assert answer.startswith("event: response.created\n")
    assert '"sequence_number":0' in answer
    assert "response.completed" in answer


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """One for all refusals, in front of nothing that could answer."""
    with ExitStack() as stack:
        yield Lab(stack, tmp_path_factory.mktemp("gateway")).gateway()


def deep(levels: int) -> list[Any]:
    """Lists that lie in each other."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def file_of(data: str) -> Json:
    """The input with one file."""
    part = {"type": "input_file", "filename": "a.txt", "file_data": data}
    return {"input": [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"previous_response_id": 7}, "previous_response_id"),
        ({"conversation": "c"}, "conversation"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        ({"tools": ["web_search"]}, "tools[0]"),
        ({"tool_choice": {"type": "function", "name": "nosuch"}}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "tools": [], "mode": "x"}}, "tool_choice"),
        (file_of("http://10.0.0.1/a.pdf"), "input[0].content[0]"),
        (file_of("data:text/plain;base64,/w=="), "input[0].content[0].file_data"),
        ({"input": 7}, "input"),
        ({"input": [7]}, "input[0]"),
        ({"input": [{"role": "nobody", "content": "x"}]}, "input[0].role"),
        ({"input": shown({})}, "input[2].output[0].type 'None'"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
        ({"model": 7}, "model"),
        ({"input": [{"type": ["x"]}]}, "input[0].type \"['x']\""),
        ({"include": 7}, "include"),
        ({"reasoning": "much"}, "reasoning"),
        ({"tool_choice": 7}, "tool_choice"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
        ({"text": {"format": "json"}}, "text.format"),
        ({"metadata": deep(300)}, None),
        ({"metadata": deep(900)}, None),
    ],
)
def test_what_cannot_be_done_or_does_not_fit_is_refused_by_name(
    strict: httpx2.Client, fields: Json, param: str | None
) -> None:
    """Left out in silence, it would give a wrong answer that looks right."""
    answer = strict.post(PATH, json={"model": "small", "input": "x", **fields})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_field_of_an_error_has_the_name_that_the_caller_gave_it(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """Servers are asked a chat, and complain of its fields."""
    model.when("x").refuse(400, "Field 'max_tokens': it is too small.")

    answer = gateway.post(PATH, json={"model": "small", "input": "x", "max_output_tokens": 1})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_output_tokens"


def test_unknown_fields_pass_through(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """Servers have fields of their own."""
    gateway.post(PATH, json={"model": "small", "input": "x", "min_p": 0.1, "seed": 7})

    assert (model.requests[0].body["min_p"], model.requests[0].body["seed"]) == (0.1, 7)


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_goes_back_to_the_model(
    client: openai.OpenAI, model: ScriptedModel, *, stream: bool
) -> None:
    """A model that thinks before it calls a tool goes on from there; without its thoughts it would
    begin again after each call. A client that keeps nothing here sends back the opaque field."""
    model.when("where").call_tools(("weather", {"place": "Oslo"})).scripts[0] = Script(
        thoughts=("I look. ", "Again."), calls=(("weather", {"place": "Oslo"}),)
    )
    model.when(lambda request: request.messages[-1].role == "tool").say("Cold.")
    asked: Json = {
        "model": "small", "input": "where?", "tools": [TOOL], "store": False,
        "include": ["reasoning.encrypted_content"],
    }  # fmt: skip
    if stream:
        with client.responses.stream(**asked) as events:
            first: Any = events.get_final_response()
    else:
        first = client.responses.create(**asked)
    thought, call = (item.model_dump() for item in first.output)
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "5"}
    for kept in (("content", "summary"), ("encrypted_content", "summary")):
        bare = {"type": "reasoning", "id": thought["id"]} | {name: thought[name] for name in kept}
        question = {"role": "user", "content": "where?"}
        client.responses.create(**asked | {"input": [question, bare, call, result]})

    for request in model.requests[-2:]:
        turn = request.body["messages"][1]
        assert turn["reasoning_content"] == "I look. Again."
        assert turn["tool_calls"][0]["function"]["name"] == "weather"


def test_reasoning_that_no_answer_follows_is_a_turn(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """An answer that was cut off in its thoughts is still what the model thought."""
    thought: Any = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    client.responses.create(model="small", input=[thought, {"role": "user", "content": "go on"}])

    turns = model.requests[0].body["messages"]
    assert turns[0] == {"role": "assistant", "content": "", "reasoning_content": "Hm."}


def test_tools_that_nobody_here_has_are_left_out_with_a_notice(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """Codex always offers some; refused, it could ask nothing at all."""
    others: Any = [
        {"type": "web_search"},
        {"type": "namespace", "name": "x", "description": "y", "tools": []},
        {"type": "odd\r\nx-forged: 1"},
    ]
    answer = client.responses.with_raw_response.create(
        model="small", input="x", tools=[*others, TOOL], tool_choice="auto"
    )
    without = client.responses.create(model="small", input="x", tools=others[:1])

    names = [tool["function"]["name"] for tool in model.requests[0].body["tools"]]
    assert names == ["weather"]
    assert model.requests[1].body.keys().isdisjoint(("tools", "tool_choice"))
    notice = "left out tools of the kind web_search, namespace, odd??x-forged??1"
    assert notice in answer.headers["x-hearth-route"]
    assert "x-forged" not in answer.headers
    assert [tool.type for tool in answer.parse().tools] == ["function"]
    assert without.tools == []


def test_allowed_tools_are_the_only_ones_that_the_model_sees(
    client: openai.OpenAI, model: ScriptedModel
) -> None:
    """Servers know no such choice: with the other tools before it, a model would call them."""
    other: Any = {**TOOL, "name": "other"}
    choice: Any = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "weather"}],
    }
    client.responses.create(model="small", input="x", tools=[TOOL, other], tool_choice=choice)

    sent = model.requests[0].body
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["weather"]
    assert sent["tool_choice"] == "required"


def test_files_reach_the_model(client: openai.OpenAI, model: ScriptedModel) -> None:
    """A text file as text, which every model reads; others as they are, for the server to judge."""
    for kind in ("text/csv", "application/pdf"):
        data = f"data:{kind};base64,{b64encode(b'a,b').decode()}"
        client.responses.create(model="small", **file_of(data))

    text, pdf = (one.body["messages"][0]["content"] for one in model.requests)
    assert text == "File a.txt:\na,b\n"
    assert pdf == [{"type": "file", "file": {"filename": "a.txt", "file_data": data}}]


def test_truncation_auto_leaves_nothing_out(client: openai.OpenAI, model: ScriptedModel) -> None:
    """Some clients always send it. What is too long is refused by the model's server."""
    model.when("x").refuse(
        400, "too long", type="exceed_context_size_error", code="context_length_exceeded"
    )
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="small", input="x", truncation="auto")

    assert refused.value.code == "context_length_exceeded"
    assert "truncation" not in model.requests[0].body


@pytest.mark.parametrize("stream", [False, True])
def test_no_field_is_null_that_has_to_be_absent(gateway: httpx2.Client, *, stream: bool) -> None:
    """OpenAI's document allows neither `user: null` nor a `usage` before there is one."""
    asked = {"model": "small", "input": "x", "stream": stream}
    text = gateway.post(PATH, json=asked).text
    named = gateway.post(PATH, json={**asked, "user": "me"}).text

    assert '"user":' not in text
    assert '"usage":null' not in text
    assert '"user":"me"' in named
