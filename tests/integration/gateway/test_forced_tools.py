"""Requests that force a call of a tool: honoured or refused, never ignored."""

import json
from typing import Any

import httpx2
import pytest

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, Json, Lab, chat

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
