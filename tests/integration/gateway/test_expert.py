"""The gateway in front of the real small model in the real engine."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx2
import openai
import pytest

from hearth.models.catalogue import FALLBACK, Catalogue
from hearth.models.pull import pull
from hearth.models.store import ModelStore
from tests.integration.expert import build_engines
from tests.integration.expert.running import KEY as EXPERT_KEY
from tests.integration.expert.running import LONG, Expert, Starter, until
from tests.integration.gateway.conftest import (
    CHAT,
    KEY,
    Json,
    Lab,
    chat,
    events,
    gauge,
    instances_of,
    send_raw,
    text_of,
    wait_until,
)

EXTENDED_INPUTS = ["moe_gateway/routing/**", "llama_expert/**"]

SOON = 15.0
"""Seconds. The engine notices at its next token; a whole answer would take far longer."""
ENDLESS: Json = {"max_tokens": 3500, "ignore_eos": True}


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Expert]:
    """SmolLM2 in the embedded engine."""
    store = ModelStore(build_engines.REPOSITORY / ".cache" / "models")
    pull(Catalogue.load()[FALLBACK], store)
    with Starter("xllamacpp", tmp_path_factory.mktemp("expert"), store.root).running() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(expert: Expert, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "expert_key").write_text(EXPERT_KEY)
    with ExitStack() as stack:
        instance: Json = {
            "url": str(expert.client.base_url),
            "expert": "smollm2",
            "key_file": folder / "expert_key",
            "slots": 4,
            "tools": "none",
            "stops_unary": False,
        }
        yield Lab(stack, folder).gateway(instance)


@pytest.mark.parametrize("stream", [True, False])
def test_generation_stops_on_the_engine_when_the_caller_hangs_up(
    expert: Expert, gateway: httpx2.Client, *, stream: bool
) -> None:
    """By the engine's own account: its slot is free again, long before the answer was whole."""
    until(lambda: expert.busy_slots() == 0, 60, "an idle engine")
    connection = send_raw(gateway, chat(LONG, "smollm2", stream=stream, **ENDLESS))
    until(lambda: expert.busy_slots() == 1, 120, "a busy slot")

    connection.close()

    until(lambda: expert.busy_slots() == 0, SOON, "a free slot after the hang-up")
    assert gateway.post(CHAT, json=chat("Hi.", "smollm2", max_tokens=1)).status_code == 200


def test_assembled_answer_is_what_the_engine_itself_would_say(
    expert: Expert, gateway: httpx2.Client
) -> None:
    """The caller of a whole answer must not be able to tell that it was streamed. It has the two
    fields, too, that OpenAI requires and the engine leaves out."""
    fixed: Json = {"temperature": 0, "seed": 1, "max_tokens": 24, "cache_prompt": False}

    assembled = gateway.post(CHAT, json=chat("Name a river.", "smollm2", **fixed)).json()
    direct = expert.chat("Name a river.", **fixed)

    for choice in direct["choices"]:
        choice["message"].setdefault("refusal", None)
        choice.setdefault("logprobs", None)
    assert assembled["choices"] == direct["choices"]
    assert assembled["usage"]["total_tokens"] == direct["usage"]["total_tokens"]
    assert assembled.keys() >= direct.keys()


def test_stream_has_the_same_words_as_the_whole_answer(gateway: httpx2.Client) -> None:
    """Both ways lead to the same model."""
    fixed: Json = {"temperature": 0, "seed": 1, "max_tokens": 24, "cache_prompt": False}
    whole = gateway.post(CHAT, json=chat("Name a river.", "auto", **fixed)).json()
    with gateway.stream(
        "POST", CHAT, json=chat("Name a river.", "auto", stream=True, **fixed)
    ) as answer:
        found = events(answer)

    assert text_of(found) == whole["choices"][0]["message"]["content"]
    assert answer.headers["x-hearth-expert"] == "smollm2"
    assert answer.headers["x-hearth-model"] == "smollm2"
    assert all(event == "[DONE]" or event["choices"] for event in found)


@pytest.mark.proves("004-14")
def test_official_client_talks_with_the_real_model(gateway: httpx2.Client) -> None:
    """Whole and streamed, with usage."""
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=KEY, max_retries=0) as client:
        whole = client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": "Say hello."}], max_tokens=16
        )
        with client.chat.completions.create(
            model="auto",
            messages=[{"role": "user", "content": "Say hello."}],
            max_tokens=16,
            stream=True,
            stream_options={"include_usage": True},
        ) as stream:
            chunks = list(stream)

    assert whole.choices[0].message.content
    assert whole.usage is not None
    assert whole.usage.completion_tokens > 0
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


def test_errors_of_the_engine_come_in_openais_shape(gateway: httpx2.Client) -> None:
    """A prompt that is too long is the most common one."""
    answer = gateway.post(CHAT, json=chat("word " * 9000, "smollm2"))

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "context" in error["message"]


USER: Json = {"role": "user", "content": "Hi"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SCHEMA: Json = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nothing"}}}
MISTAKES: list[tuple[str, Json, str, str]] = [
    (CHAT, {"messages": None}, "messages", "array"),
    (CHAT, {"messages": [{"role": "user"}]}, "messages", "content"),
    (CHAT, {"messages": [{"content": "Hi"}]}, "messages", "Missing 'role'"),
    (CHAT, {"messages": [{"role": "user", "content": [PICTURE]}]}, "messages", "`vision`"),
    (CHAT, {"messages": [USER, {"role": "assistant", "tool_calls": "x"}]}, "messages", "tool call"),
    (CHAT, {"tools": "x"}, "tools", "Expected 'tools' to be an array"),
    (CHAT, {"tools": [{"type": "function", "function": {}}]}, "tools", "key 'name' not found"),
    (CHAT, {"tool_choice": "perhaps"}, "tool_choice", "perhaps"),
    (CHAT, {"max_tokens": "many"}, "max_tokens", "got `str`"),
    (CHAT, {"max_tokens": -5}, "max_tokens", "`int` >= 0"),
    (CHAT, {"n": 100}, "n", "1 <= value <= 4"),
    (CHAT, {"stop": [7]}, "stop", "must be string"),
    (CHAT, {"temperature": "hot"}, "temperature", "got `str`"),
    (CHAT, {"response_format": SCHEMA}, "response_format", "unrecognized type nothing"),
    (CHAT, {"response_format": {"type": "xml"}}, "response_format", "xml"),
    (CHAT, {"grammar": "root ::= ["}, "grammar", "failed to parse grammar"),
    ("/v1/completions", {"prompt": 7}, "prompt", "must be a string"),
    ("/v1/completions", {}, "prompt", "not found"),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": "x"}, "max_output_tokens", "got `str`"),
    ("/v1/embeddings", {"input": "Hi"}, "model", "capability `embeddings`"),
]


def test_mistakes_of_one_caller_are_told_and_close_no_door(gateway: httpx2.Client) -> None:
    """llama-server calls many of them its own failure: clients would send each three times, and
    after three of these nobody else would be answered. The caller reads which field to mend."""
    for path, fields, param, words in MISTAKES:
        whole = {"messages": [USER]} if path == CHAT else {}
        for stream in (False, True):
            body = {"model": "smollm2", "max_tokens": 4, "stream": stream, **whole, **fields}
            answer = gateway.post(path, json=body)
            error = answer.json()["error"]

            assert answer.status_code == 400, (fields, answer.text)
            assert (error["type"], error["param"]) == ("invalid_request_error", param), answer.text
            assert words in error["message"]
            assert "json.exception" not in answer.text
    [instance] = instances_of(gateway)
    assert instance["circuit"] == "closed"


SEVERAL: list[tuple[str, Json, int]] = [
    (CHAT, {"messages": [USER], "n": 3}, 3),
    ("/v1/completions", {"prompt": ["Once", "The river"]}, 2),
    ("/v1/completions", {"prompt": ["Once", "The river"], "n": 2}, 4),
]


def spent_by(gateway: httpx2.Client) -> float:
    """Tokens of all keys, once the last answer is counted; its caller has it a moment before."""
    wait_until(lambda: gauge(gateway, "moe_gateway_in_flight") == 0)
    return gauge(gateway, "moe_gateway_key_tokens_total")


@pytest.mark.parametrize(("path", "fields", "count"), SEVERAL)
def test_several_answers_cost_all_that_was_said(
    gateway: httpx2.Client, path: str, fields: Json, count: int
) -> None:
    """The engine tells it for each of them, and of whole ones for the first alone: budgets would
    be overdrawn by all others. It begins further prompts with an event that is no chunk."""
    body: Json = {"model": "smollm2", "max_tokens": 4, "ignore_eos": True, **fields}
    prompts = [{**body, "n": 1, "prompt": one} for one in fields.get("prompt", ())]
    singles = [gateway.post(path, json=one).json() for one in prompts or [{**body, "n": 1}]]
    read = sum(one["usage"]["prompt_tokens"] for one in singles)
    before = spent_by(gateway)

    whole = gateway.post(path, json=body)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    with gateway.stream("POST", path, json={**body, **options}) as answer:
        found = events(answer)
    with gateway.stream("POST", path, json={**body, "stream": True}) as answer:
        silent = events(answer)

    assert whole.status_code == 200, whole.text
    assert sorted(one["index"] for one in whole.json()["choices"]) == list(range(count))
    told = [whole.json()["usage"], *(one["usage"] for one in found[:-1] if not one["choices"])]
    costs = [(one["prompt_tokens"], one["completion_tokens"]) for one in told]
    assert costs == [(read, 4 * count)] * 2
    assert {one["choices"][0]["index"] for one in silent[:-1]} == set(range(count))
    assert spent_by(gateway) - before == 3 * (read + 4 * count)


def test_more_callers_than_slots_all_get_answers(gateway: httpx2.Client) -> None:
    """Those who wait in the engine's queue must not make it look dead."""
    start = time.monotonic()
    connections = [send_raw(gateway, chat("Hi", "smollm2", max_tokens=8)) for _ in range(12)]
    answers = []
    for connection in connections:
        answers.append(connection.recv(65536))
        connection.close()

    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert time.monotonic() - start < 120


@pytest.mark.extended
def test_clock_in_a_system_prompt_does_not_cost_the_cache(
    expert: Expert, gateway: httpx2.Client
) -> None:
    """By the engine's own count: straight to it, the second turn is read from the clock on."""
    rules = "You look after a house. Its doors, lamps and heaters are yours to know. " * 16

    def second_turn(client: httpx2.Client) -> tuple[int, int]:
        """Cached and all tokens of the second prompt."""
        talk: list[Json] = [{"role": "user", "content": f"Hello, {client.base_url}."}]
        for turn in range(2):
            system = {"role": "system", "content": f"Current time: 10:0{turn}:00\n{rules}"}
            body = {"model": "smollm2", "messages": [system, *talk], "max_tokens": 4}
            answer = client.post(CHAT, json=body).raise_for_status().json()
            talk += [answer["choices"][0]["message"], {"role": "user", "content": "And now?"}]
        usage = answer["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]

    direct, whole = second_turn(expert.client)
    kept, _ = second_turn(gateway)

    assert direct < 0.1 * whole
    assert kept > 0.85 * whole
