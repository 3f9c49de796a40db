"""Requests that force a call of a tool: honoured or refused, never ignored."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.clients.real import TEMPLATE, llama_server, smollm2
from tests.integration.gateway.conftest import CHAT, KEY, Json, Lab, chat

EXTENDED_INPUTS = ["moe_gateway/requests/**", "llama_expert/**"]

RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
OLLAMA = "/api/chat"
NAMES = ("weather", "clock")
TOOLS: list[Json] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in NAMES
]
ANTHROPIC: list[Json] = [{"name": name, "input_schema": {"type": "object"}} for name in NAMES]
FLAT: list[Json] = [{"type": "function", "name": name, "parameters": {}} for name in NAMES]


def function(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> Json:
    tools = [function(name) for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    """`small` calls tools; the model of `plain` has no template for them."""
    plain = lab.expert(ScriptedModel(), "plain", tools="none", aliases=["simple"])
    return lab.gateway(lab.expert(model, stops_unary=False), plain)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"tools": TOOLS, "tool_choice": "required"}),
        (CHAT, {"tools": TOOLS, "tool_choice": function("clock")}),
        (CHAT, {"tools": TOOLS, "tool_choice": allowed("required", "clock")}),
        (RESPONSES, {"tools": FLAT, "tool_choice": "required"}),
        (RESPONSES, {"tools": FLAT, "tool_choice": {"type": "function", "name": "clock"}}),
        (MESSAGES, {"tools": ANTHROPIC, "tool_choice": {"type": "any"}}),
        (MESSAGES, {"tools": ANTHROPIC, "tool_choice": {"type": "tool", "name": "clock"}}),
        (OLLAMA, {"tools": TOOLS, "tool_choice": "required"}),
    ],
)
@pytest.mark.parametrize("name", ["plain", "simple"])
def test_model_without_a_template_for_tools_is_refused(
    gateway: httpx2.Client, path: str, fields: Json, name: str
) -> None:
    """It answered in prose, with 200, to a program that waits for a call."""
    body: Json = {"input": "x"} if path == RESPONSES else {"messages": chat("x")["messages"]}
    answer = gateway.post(path, json={"model": name, **body, **fields})

    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    if path in (CHAT, RESPONSES):
        assert (error["param"], error["code"]) == ("tool_choice", "no_capable_expert")
    assert "has no template for tools" in json.dumps(error)


@pytest.mark.parametrize("choice", ["auto", "none", None, allowed("auto", "clock")])
def test_model_without_a_template_still_talks(gateway: httpx2.Client, choice: Any) -> None:
    """Many programs send tools with each request; whoever names a model gets it."""
    answer = gateway.post(CHAT, json=chat("x", "plain", tools=TOOLS, tool_choice=choice))

    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("choice", "names", "word"),
    [
        (function("clock"), ["clock"], "required"),
        (allowed("required", "clock"), ["clock"], "required"),
        (allowed("auto", "weather", "clock"), ["weather", "clock"], "auto"),
        ("required", ["weather", "clock"], "required"),
    ],
)
def test_named_function_is_forced_in_the_words_of_llama_server(
    gateway: httpx2.Client,
    model: ScriptedModel,
    choice: Any,
    names: list[str],
    word: str,
    *,
    stream: bool,
) -> None:
    """It takes any object for `auto`. The only tool that it is shown, and has to call, is that."""
    body = chat("x", tools=TOOLS, tool_choice=choice, stream=stream, seed=7)
    gateway.post(CHAT, json=body).raise_for_status()

    sent = model.requests[0].body
    assert [tool["function"]["name"] for tool in sent["tools"]] == names
    assert sent["tool_choice"] == word
    assert sent["seed"] == 7


@pytest.mark.parametrize(
    "choice",
    [function("nosuch"), {"type": "custom"}, allowed("auto"), allowed("sometimes", "clock"), {}],
)
def test_choice_that_nobody_can_honour_is_refused(
    gateway: httpx2.Client, model: ScriptedModel, choice: Any
) -> None:
    """It would have been taken for `auto`."""
    answer = gateway.post(CHAT, json=chat("x", tools=TOOLS, tool_choice=choice))

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == "tool_choice"
    assert model.requests == []


LIGHT: Json = {
    "type": "function",
    "function": {
        "name": "set_light",
        "description": "Switch the light of a room.",
        "parameters": {
            "type": "object",
            "properties": {"room": {"enum": ["kitchen", "hall"]}, "on": {"type": "boolean"}},
            "required": ["room", "on"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """SmolLM2 in llama-server, with a template whose calls are plain JSON.

    With a mark before each call, the grammar of llama-server allows prose up to the mark, and a
    model of this size writes it up to `max_tokens`.
    """
    folder = tmp_path_factory.mktemp("engine")
    template = folder / "json.jinja"
    marks = re.compile(r"(\\n)?</?tool_call>(\\n)?")
    template.write_text(marks.sub("", TEMPLATE.read_text(encoding="utf-8")), encoding="utf-8")
    more = ("--ctx-size", "2048", "--chat-template-file", str(template))
    with llama_server(smollm2(), folder, *more) as server, ExitStack() as stack:
        yield Lab(stack, folder).gateway({"url": server, "expert": "smollm2", "slots": 1})


@pytest.mark.extended
@pytest.mark.parametrize("choice", ["required", function("set_light")])
@pytest.mark.parametrize("stream", [False, True])
def test_real_engine_makes_the_forced_call(
    engine: httpx2.Client, choice: Any, *, stream: bool
) -> None:
    """With `auto`, this model of 135 million parameters explains how to write a program."""
    body = chat("Switch the kitchen light on.", "smollm2", tools=[LIGHT], tool_choice=choice)
    body |= {"parallel_tool_calls": False, "max_tokens": 200, "temperature": 0}
    with openai.OpenAI(base_url=f"{engine.base_url}/v1", api_key=KEY, max_retries=0) as client:
        if stream:
            with client.chat.completions.stream(**body) as events:
                answer: ChatCompletion = events.get_final_completion()
        else:
            answer = client.chat.completions.create(**body)

    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls
    assert call.function.name == "set_light"
    arguments = json.loads(call.function.arguments)
    assert arguments["room"] in ("kitchen", "hall")
    assert isinstance(arguments["on"], bool)
