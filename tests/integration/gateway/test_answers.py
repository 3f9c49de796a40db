"""Whole and streamed answers, passed on as they come."""

import gc
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import (
    CHAT,
    SERVICE_KEY,
    Lab,
    caller,
    chat,
    events,
    instances_of,
    text_of,
    wait_until,
)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel("scripted-135m", key="sk-hearth-test-of-services")


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    return lab.gateway(lab.expert(model, aliases=["tiny"], slots=4))


@pytest.mark.parametrize("stream", [False, True])
def test_request_that_is_over_leaves_nothing_for_the_collector(
    gateway: httpx2.Client, *, stream: bool
) -> None:
    """What only the collector of reference cycles finds is memory until it looks."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            gateway.post(CHAT, json=chat("x", stream=stream)).raise_for_status()
        kept = [one for one in gc.get_objects() if isinstance(one, RequestResponseCycle)]
    finally:
        gc.enable()

    server = ("127.0.0.1", gateway.base_url.port)
    assert sum(one.scope["server"] == server for one in kept) <= 1


def test_words_arrive_as_the_model_says_them(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """The first word is not held back until the last one is there."""
    model.when("go").hang("one two three", after=2)

    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        words = (line for line in answer.iter_lines() if '"content":"' in line)
        said = [next(words), next(words)]
        is_running = model.running

    assert ['"one "' in said[0], '"two "' in said[1]] == [True, True]
    assert is_running == 1


def test_stream_is_the_servers_own_with_done_at_its_end(gateway: httpx2.Client) -> None:
    """A caller who asked for no usage gets no usage chunk, though the gateway counts."""
    with gateway.stream("POST", CHAT, json=chat("one two", stream=True)) as answer:
        found = events(answer)

    assert answer.headers["content-type"] == "text/event-stream"
    assert text_of(found) == "one two"
    assert found[0]["choices"][0]["delta"]["role"] == "assistant"
    assert found[-2]["choices"][0]["finish_reason"] == "stop"
    assert found[-1] == "[DONE]"
    assert "moe_gateway_tokens_total{" in (metrics := gateway.get("/metrics").text)
    assert 'kind="completion",model="small"} 2.0' in metrics


def test_usage_chunk_comes_to_the_caller_who_asked(gateway: httpx2.Client) -> None:
    """Its choices are empty, as in OpenAI's API."""
    body = chat("one two", stream=True, stream_options={"include_usage": True})
    with gateway.stream("POST", CHAT, json=body) as answer:
        found = events(answer)

    assert found[-2]["choices"] == []
    assert found[-2]["usage"]["completion_tokens"] == 2


def test_whole_answer_comes_with_usage(gateway: httpx2.Client) -> None:
    """Not streamed: one JSON document."""
    answer = gateway.post(CHAT, json=chat("one two")).json()

    assert answer["choices"][0]["message"]["content"] == "one two"
    assert answer["usage"]["total_tokens"] == 4


def test_server_gets_the_callers_very_bytes(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """Fields that the gateway does not know are none of its business."""
    body = chat("x", seed=7, response_format={"type": "json_object"}, unknown={"a": [1.5]})
    gateway.post(CHAT, content=json.dumps(body))

    assert model.requests[0].body == body
    assert model.requests[0].headers["authorization"] == "Bearer sk-hearth-test-of-services"


@pytest.mark.parametrize("name", ["auto", "tiny"])
def test_server_is_asked_by_its_own_name(
    gateway: httpx2.Client, model: ScriptedModel, name: str
) -> None:
    """`auto` and aliases are the gateway's words."""
    answer = gateway.post(CHAT, json=chat("x", model=name))

    assert model.requests[0].body["model"] == "small"
    assert answer.headers["x-hearth-expert"] == "small"


def test_every_answer_says_who_answered_and_why(gateway: httpx2.Client) -> None:
    """Expert, the model that really runs there, reason, time and an id to ask about."""
    answer = gateway.post(CHAT, json=chat("x", "auto"), headers={"x-request-id": "mine-1"})

    assert answer.headers["x-hearth-expert"] == "small"
    assert answer.headers["x-hearth-model"] == "scripted-135m"
    assert answer.headers["x-hearth-route"] == "auto: the only one that can"
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["openai-processing-ms"].isdigit()


def test_answer_names_the_model_of_the_instance_that_gave_it(lab: Lab) -> None:
    """One machine has room for the first model of an expert's list, another one for the last."""
    big, tiny, held = ScriptedModel("big-7b"), ScriptedModel("tiny-135m"), threading.Event()
    big.when("long").say("big here", held=held)
    gateway = lab.gateway(lab.expert(big, slots=1), lab.expert(tiny, slots=1))
    wait_until(lambda: all(one["model"] for one in instances_of(gateway)))
    with ThreadPoolExecutor(1) as threads:
        long = threads.submit(gateway.post, CHAT, json=chat("long"))
        try:
            big.wait_until(lambda model: model.running == 1)
            short = gateway.post(CHAT, json=chat("short"))
        finally:
            held.set()

    told = [answer.headers["x-hearth-model"] for answer in (long.result(), short)]
    assert told == ["big-7b", "tiny-135m"]
    assert short.headers["x-hearth-expert"] == "small"
    assert [one["model"] for one in instances_of(gateway)] == told


def test_request_id_reaches_the_server(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """One id is found in the logs of all services."""
    answer = gateway.post(CHAT, json=chat("x"))

    assert model.requests[0].headers["x-request-id"] == answer.headers["x-request-id"]


def test_headers_of_the_agent_reach_the_caller(lab: Lab) -> None:
    """`x-hearth-run` leads to the run; CORS and cookies of a server do not get through."""
    agent = ScriptedModel("agent")
    passed = {"x-hearth-run": "r1", "access-control-allow-origin": "*", "set-cookie": "a=b"}
    agent.when("x").answer(b'{"choices": []}', headers=passed)
    gateway = lab.gateway(lab.agent(agent))

    answer = gateway.post(CHAT, json=chat("x", "agent"))

    assert answer.headers["x-hearth-run"] == "r1"
    assert "access-control-allow-origin" not in answer.headers
    assert "set-cookie" not in answer.headers


def test_plain_completions_and_embeddings_pass_too(gateway: httpx2.Client) -> None:
    """The other two hot routes; node's client asks for base64 vectors. There is no stream of those,
    so who asks for one gets them."""
    text = gateway.post("/v1/completions", json={"model": "small", "prompt": "a b"}).json()
    body: dict[str, Any] = {"model": "small", "input": ["abc"], "encoding_format": "base64"}
    streamed = gateway.post("/v1/embeddings", json={**body, "stream": True})
    assert streamed.status_code == 200
    vector = gateway.post("/v1/embeddings", json=body).json()

    assert text["choices"][0]["text"] == "a b"
    assert isinstance(vector["data"][0]["embedding"], str)


def test_plain_completions_stream_too(gateway: httpx2.Client) -> None:
    """Editors ask for completions as they are typed."""
    body = {"model": "small", "prompt": "a b", "stream": True}
    with gateway.stream("POST", "/v1/completions", json=body) as answer:
        found = events(answer)

    assert "".join(event["choices"][0]["text"] for event in found[:-1]) == "a b"
    assert found[-1] == "[DONE]"


def test_large_bodies_pass_both_ways(gateway: httpx2.Client) -> None:
    """A picture or a long document is megabytes."""
    text = "x" * 4_000_000
    answer = gateway.post(CHAT, json=chat(text))

    assert answer.json()["choices"][0]["message"]["content"] == text


def test_large_stream_passes_a_slow_reader(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """A caller who reads slowly gets every word."""
    model.when("go").say("word " * 5000)
    with gateway.stream("POST", CHAT, json=chat("go", stream=True)) as answer:
        time.sleep(0.3)
        found = events(answer)

    assert text_of(found) == "word " * 5000


def test_stream_that_nobody_asked_for_is_put_together(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """Some servers always stream; a client that waits for a document would show its events."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "one"}, "finish_reason": "stop"}]}
    stream = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    model.when("x").answer(stream, headers={"content-type": "text/event-stream"})

    answer = gateway.post(CHAT, json=chat("x"))

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["choices"][0]["message"]["content"] == "one"


class TestAssembled:
    """An engine that does not notice hang-ups is asked for a stream; callers see no difference."""

    @pytest.fixture
    def gateway(self, lab: Lab, model: ScriptedModel) -> httpx2.Client:
        return lab.gateway(lab.expert(model, stops_unary=False))

    @pytest.mark.parametrize(
        "fields", [{}, {"n": 2}, {"logprobs": True}, {"n": 2, "logprobs": True}]
    )
    def test_whole_answer_is_the_same_as_without(
        self, gateway: httpx2.Client, model: ScriptedModel, fields: dict[str, Any]
    ) -> None:
        """Text, thoughts, several choices and log probabilities are put together again."""
        model.when("x").say("one two", thoughts="let me see")
        body = chat("x", **fields)
        [instance] = instances_of(gateway)
        with caller(instance["url"], SERVICE_KEY) as server:
            answers = [one.post(CHAT, json=body).json() for one in (server, gateway)]
        for answer in answers:
            answer.pop("id")

        assert answers[0] == answers[1]
        assert "stream" not in model.requests[0].body
        assert model.requests[1].body["stream"] is True

    def test_tool_calls_are_whole(self, gateway: httpx2.Client, model: ScriptedModel) -> None:
        """Their arguments come in pieces."""
        model.when("x").call_tools(("f", {"a": 1}), ("g", {"long": "y" * 50}))

        choice = gateway.post(CHAT, json=chat("x")).json()["choices"][0]

        calls = [call["function"] for call in choice["message"]["tool_calls"]]
        assert [(c["name"], json.loads(c["arguments"])) for c in calls] == [
            ("f", {"a": 1}),
            ("g", {"long": "y" * 50}),
        ]
        assert choice["finish_reason"] == "tool_calls"

    def test_error_in_the_stream_becomes_a_status(
        self, gateway: httpx2.Client, model: ScriptedModel
    ) -> None:
        """A caller without stream expects an HTTP error."""
        model.when("x").lose("one two", after=1, how="error")

        answer = gateway.post(CHAT, json=chat("x"))

        assert answer.status_code == 500
        assert answer.json()["error"]["message"] == "The script broke."

    def test_plain_completion_is_put_together_too(self, gateway: httpx2.Client) -> None:
        """`/v1/completions` streams text, not deltas."""
        answer = gateway.post("/v1/completions", json={"model": "small", "prompt": "a b"}).json()

        assert answer["choices"][0]["text"] == "a b"
        assert answer["usage"]["completion_tokens"] == 2
