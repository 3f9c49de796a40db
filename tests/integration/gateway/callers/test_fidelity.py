"""Every field of OpenAI's requests, through each path: what reaches the model, and what comes back.

A field is honoured, refused by its name, or named in `x-hearth-ignored`; only the few that clients
send by themselves (`BY_HABIT`) have no effect in silence. The fields are those of the installed
official client, so a new version of it with a new field fails here until the field has its row.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase as ChatParams
from openai.types.completion_create_params import CompletionCreateParamsBase as TextParams
from openai.types.embedding_create_params import EmbeddingCreateParams
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.callers.conftest import House
from tests.integration.gateway.conftest import CHAT, Json, Lab, chat

SCHEMA: Final[Json] = {
    "type": "json_schema",
    "json_schema": {"name": "x", "schema": {"type": "object"}},
}
TOOL: Final[Json] = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object"}},
}
FLAT_TOOL: Final[Json] = {"type": "function", "name": "f", "parameters": {"type": "object"}}

PASSED, IGNORED, REFUSED, BY_HABIT = "passed", "ignored", "refused", "by habit"
"""What becomes of a field: it reaches the model as it came; `x-hearth-ignored` names it; 400 with
its name; or nothing, because clients send it by themselves."""

CHATS: Final[dict[str, tuple[Any, str, str]]] = {
    "audio": ({"voice": "alloy", "format": "wav"}, PASSED, REFUSED),
    "frequency_penalty": (0.5, PASSED, IGNORED),
    "function_call": ({"name": "f"}, REFUSED, REFUSED),
    "functions": ([{"name": "f"}], REFUSED, REFUSED),
    "logit_bias": ({"7": 5}, PASSED, REFUSED),
    "logprobs": (True, PASSED, REFUSED),
    "max_completion_tokens": (9, PASSED, IGNORED),
    "max_tokens": (9, PASSED, IGNORED),
    "metadata": ({"a": "b"}, PASSED, BY_HABIT),
    "modalities": (["text", "audio"], PASSED, REFUSED),
    "moderation": ({"model": "omni"}, REFUSED, REFUSED),
    "n": (2, PASSED, REFUSED),
    "parallel_tool_calls": (False, PASSED, BY_HABIT),
    "prediction": ({"type": "content", "content": "x"}, PASSED, BY_HABIT),
    "presence_penalty": (0.5, PASSED, IGNORED),
    "prompt_cache_key": ("k", PASSED, BY_HABIT),
    "prompt_cache_options": ({"mode": "auto"}, PASSED, BY_HABIT),
    "prompt_cache_retention": ("24h", PASSED, BY_HABIT),
    "reasoning_effort": ("low", PASSED, IGNORED),
    "response_format": (SCHEMA, PASSED, REFUSED),
    "safety_identifier": ("s", PASSED, BY_HABIT),
    "seed": (7, PASSED, IGNORED),
    "service_tier": ("auto", PASSED, BY_HABIT),
    "stop": (["\n"], PASSED, REFUSED),
    "store": (True, PASSED, BY_HABIT),
    "temperature": (0.5, PASSED, IGNORED),
    "tool_choice": ("required", PASSED, REFUSED),
    "tools": ([TOOL], PASSED, IGNORED),
    "top_logprobs": (2, PASSED, REFUSED),
    "top_p": (0.5, PASSED, IGNORED),
    "user": ("u", PASSED, BY_HABIT),
    "verbosity": ("low", PASSED, IGNORED),
    "web_search_options": ({"search_context_size": "low"}, REFUSED, REFUSED),
}
"""Field of a chat -> a value of it, what becomes of it at an expert, and at a workflow that takes
nothing but messages."""

AGENT_TAKES: Final = ("temperature", "max_tokens", "max_completion_tokens")
"""Inputs of the agent's own workflow."""

TEXTS: Final[dict[str, tuple[Any, str]]] = {
    "best_of": (2, REFUSED),
    "echo": (True, REFUSED),
    "frequency_penalty": (0.5, IGNORED),
    "logit_bias": ({"7": 5}, REFUSED),
    "logprobs": (1, REFUSED),
    "max_tokens": (9, PASSED),
    "n": (2, REFUSED),
    "presence_penalty": (0.5, IGNORED),
    "seed": (7, IGNORED),
    "stop": (["\n"], REFUSED),
    "suffix": ("end", REFUSED),
    "temperature": (0.5, PASSED),
    "top_p": (0.5, IGNORED),
    "user": ("u", BY_HABIT),
}
"""Field of a completion -> a value of it, and what becomes of it at the agent; experts get all."""

Reaches = tuple[str, Any]
RESPONSES: Final[dict[str, tuple[Any, Reaches | str]]] = {
    "access_programs": ({"a": "b"}, REFUSED),
    "background": (True, REFUSED),
    "background_options": ({"a": "b"}, REFUSED),
    "context_management": ([{"type": "compaction"}], REFUSED),
    "conversation": ("c", REFUSED),
    "image": ({"a": "b"}, REFUSED),
    "include": (["message.output_text.logprobs"], ("logprobs", True)),
    "instructions": ("Short.", ("messages", [{"role": "system", "content": "Short."}])),
    "max_output_tokens": (9, ("max_tokens", 9)),
    "max_tool_calls": (3, BY_HABIT),
    "metadata": ({"a": "b"}, ("metadata", {"a": "b"})),
    "moderation": ({"model": "omni"}, REFUSED),
    "parallel_tool_calls": (False, ("parallel_tool_calls", False)),
    "previous_response_id": ("resp_1", REFUSED),
    "prompt": ({"id": "p"}, REFUSED),
    "prompt_cache_key": ("k", ("prompt_cache_key", "k")),
    "prompt_cache_options": ({"mode": "auto"}, BY_HABIT),
    "prompt_cache_retention": ("24h", BY_HABIT),
    "reasoning": ({"effort": "low"}, ("reasoning_effort", "low")),
    "safety_identifier": ("s", BY_HABIT),
    "service_tier": ("auto", BY_HABIT),
    "store": (False, BY_HABIT),
    "stream_options": ({"include_obfuscation": False}, BY_HABIT),
    "temperature": (0.5, ("temperature", 0.5)),
    "text": ({"verbosity": "low"}, ("verbosity", "low")),
    "tool_choice": ("auto", ("tool_choice", "auto")),
    "tools": ([FLAT_TOOL], ("tools", [TOOL])),
    "top_logprobs": (2, ("top_logprobs", 2)),
    "top_p": (0.5, ("top_p", 0.5)),
    "truncation": ("auto", BY_HABIT),
    "user": ("u", ("user", "u")),
}
"""Field of a response -> a value of it, and the field and value of the chat that a model gets."""

EMBEDDINGS: Final[Json] = {"dimensions": 2, "encoding_format": "base64", "user": "u"}

FOREIGN: Final = ("min_p", {"depth": [1, 2]})
"""A field that OpenAI does not define."""


def test_every_field_of_the_official_client_has_its_row() -> None:
    """What nobody has thought of would be lost in silence."""
    common = {"model", "stream_options"}

    assert CHATS.keys() == ChatParams.__annotations__.keys() - common - {"messages"}
    assert TEXTS.keys() == TextParams.__annotations__.keys() - common - {"prompt"}
    assert RESPONSES.keys() == ResponseCreateParamsBase.__annotations__.keys() - {"model", "input"}
    assert EMBEDDINGS.keys() == EmbeddingCreateParams.__annotations__.keys() - {"model", "input"}


@dataclass
class Experts:
    """Two instances in front of one model: `small` as it is, `put-together` as a stream."""

    model: ScriptedModel
    gateway: httpx2.Client

    def sent(self, path: str, body: Json) -> tuple[httpx2.Response, list[Json]]:
        """The answer to a request, and what reached the model."""
        self.model.requests.clear()
        answer = self.gateway.post(path, json=body)
        return answer, [request.body for request in self.model.requests]


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experts]:
    model = ScriptedModel()
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path_factory.mktemp("experts"))
        whole = lab.expert(model, embeddings=True, slots=4)
        assembled = lab.expert(model, "put-together", stops_unary=False, slots=4)
        yield Experts(model, lab.gateway(whole, assembled))


PATHS: Final = {
    "stream": ("small", True),
    "unary": ("small", False),
    "put": ("put-together", False),
}


def expect(fate: str, name: str, answer: httpx2.Response, *, ignored: str = "") -> bool:
    """Assert how the answer speaks of a field; return whether the field may have an effect."""
    if fate == REFUSED:
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == name
        return False
    assert answer.status_code == 200, answer.text
    assert answer.headers.get("x-hearth-ignored", "") == ignored
    return fate == PASSED


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [*CHATS, FOREIGN[0]])
def test_field_of_a_chat_reaches_an_expert(experts: Experts, name: str, path: str) -> None:
    """As it came, whichever way its answer takes."""
    value, fate, _ = CHATS.get(name, (FOREIGN[1], PASSED, ""))
    model, stream = PATHS[path]
    more = {"tools": [TOOL]} if name == "tool_choice" else {}
    answer, sent = experts.sent(CHAT, chat("x", model, stream=stream, **{name: value}, **more))

    if expect(fate, name, answer):
        assert sent[0][name] == value
    else:
        assert sent == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [*TEXTS, FOREIGN[0]])
def test_field_of_a_completion_reaches_an_expert(experts: Experts, name: str, path: str) -> None:
    """The same for the older API."""
    value = TEXTS[name][0] if name in TEXTS else FOREIGN[1]
    model, stream = PATHS[path]
    body = {"model": model, "prompt": "x", "stream": stream, name: value}
    answer, sent = experts.sent("/v1/completions", body)

    assert answer.status_code == 200, answer.text
    assert sent[0][name] == value


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [*RESPONSES, FOREIGN[0]])
def test_field_of_a_response_reaches_an_expert(experts: Experts, name: str, path: str) -> None:
    """Under the name that a chat has for it."""
    value, fate = RESPONSES.get(name, (FOREIGN[1], FOREIGN))
    model, stream = PATHS[path]
    more = {"tools": [FLAT_TOOL]} if name == "tool_choice" else {}
    body = {"model": model, "input": "x", "stream": stream, name: value, **more}
    answer, sent = experts.sent("/v1/responses", body)

    if isinstance(fate, str):
        expect(fate, name, answer)
        assert not sent or sent[0].keys() <= {"model", "messages", "stream", "stream_options"}
    else:
        field, wanted = fate
        got = sent[0][field]
        assert (got[: len(wanted)] if field == "messages" else got) == wanted
        if "logprobs" in field:
            assert sent[0]["logprobs"] is True


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_field_of_an_embedding_reaches_an_expert(experts: Experts, name: str) -> None:
    """Vectors come in the form that was asked for."""
    body = {"model": "small", "input": "x", name: EMBEDDINGS[name]}
    answer, sent = experts.sent("/v1/embeddings", body)

    assert answer.status_code == 200, answer.text
    assert sent[0][name] == EMBEDDINGS[name]
    found = answer.json()["data"][0]["embedding"]
    assert isinstance(found, str if name == "encoding_format" else list)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["agent", "workflow/ask-big"])
@pytest.mark.parametrize("name", CHATS)
def test_field_of_a_chat_reaches_a_workflow_or_is_named(
    house: House, name: str, model: str, *, stream: bool
) -> None:
    """Whoever asks an agent learns what it did not take."""
    value, _, fate = CHATS[name]
    takes = model == "agent" and name in AGENT_TAKES
    own = "max_tokens" if name == "max_completion_tokens" else name
    answer = house.gateway.post(CHAT, json=chat("x", model, stream=stream, **{name: value}))
    ignored = own if fate == IGNORED and not takes else ""

    if expect(PASSED if takes else fate, name, answer, ignored=ignored):
        assert house.small.requests[0].body[own] == value
    elif fate == REFUSED:
        assert [*house.small.requests, *house.big.requests] == []


@pytest.mark.parametrize("name", TEXTS)
def test_field_of_a_completion_reaches_the_agent_or_is_named(house: House, name: str) -> None:
    """The same for the older API."""
    value, fate = TEXTS[name]
    body = {"model": "agent", "prompt": "x", name: value}
    answer = house.gateway.post("/v1/completions", json=body)

    if expect(fate, name, answer, ignored=name if fate == IGNORED else ""):
        assert house.small.requests[0].body[name] == value


@pytest.mark.parametrize("model", ["small", "put-together"])
def test_what_a_model_says_comes_back_whole(experts: Experts, model: str) -> None:
    """Put together from a stream, an answer is the one that a whole answer would have been."""
    experts.model.when("what is said").say("a b", thoughts="hm ", finish="length")
    body = chat("what is said", model, n=2, logprobs=True)
    answer, _ = experts.sent(CHAT, body)

    found = answer.json()
    assert [choice["index"] for choice in found["choices"]] == [0, 1]
    for choice in found["choices"]:
        assert choice["message"] == {
            "role": "assistant", "content": "a b", "reasoning_content": "hm ", "refusal": None,
        }  # fmt: skip
        assert choice["finish_reason"] == "length"
        words = [one["token"] for one in choice["logprobs"]["content"]]
        assert words == ["hm ", "a ", "b"]
    assert found["usage"]["completion_tokens"] > 0
