"""The scripted model itself: tests lean on it, so it is tested too."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.types import ASGIApp

from hearth.openai_api.testing import ScriptedModel

Serve = Callable[[ASGIApp], str]
Post = Callable[..., httpx2.Response]


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel("small", slots=2)


@pytest.fixture
def http(model: ScriptedModel, serve: Serve) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=serve(model.app), trust_env=False, timeout=60) as http:
        yield http


def body(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "small", "messages": [{"role": "user", "content": text}], **fields}


def said(http: httpx2.Client, text: str) -> str:
    answer = http.post("/v1/chat/completions", json=body(text)).raise_for_status()
    return str(answer.json()["choices"][0]["message"]["content"])


def test_rules_answer_in_order_and_the_last_answer_stays(
    http: httpx2.Client, model: ScriptedModel
) -> None:
    """A test can fail once and then work, or call a tool and then speak."""
    model.when("hello").say("First.").say("Second.")
    model.when(lambda request: request.model == "small").say("By model.")

    assert [said(http, "hello") for _ in range(3)] == ["First.", "Second.", "Second."]
    assert said(http, "else") == "By model."


def test_without_a_rule_it_repeats_the_user(http: httpx2.Client) -> None:
    """Twenty callers can each check that they got their own answer."""
    assert said(http, "number  17\nplease") == "number  17\nplease"


def test_last_message_chooses_the_rule(http: httpx2.Client, model: ScriptedModel) -> None:
    """After a tool's result the same question must not call the tool again."""
    model.when("time").call_tool("time.now", {})
    messages = [
        {"role": "user", "content": "what time"},
        {"role": "tool", "content": "12:00", "tool_call_id": "call_1"},
    ]
    answer = http.post("/v1/chat/completions", json={"model": "small", "messages": messages})

    assert answer.json()["choices"][0]["message"]["content"] == "what time"


def test_reset_is_a_reset(http: httpx2.Client, model: ScriptedModel) -> None:
    """A crashed server resets the connection; that is not the same as closing it."""
    model.when("go").lose(how="reset")

    with pytest.raises(httpx2.ReadError, match="reset"):
        http.post("/v1/chat/completions", json=body("go"))


def test_close_ends_without_the_end_of_the_body(http: httpx2.Client, model: ScriptedModel) -> None:
    """A client that checks chunked encoding notices, streamed or not."""
    model.when("go").lose("one two", after=1, how="close")

    for stream in (True, False):
        with pytest.raises(httpx2.RemoteProtocolError, match="closed connection"):
            http.post("/v1/chat/completions", json=body("go", stream=stream))


def test_unary_work_goes_on_after_a_hang_up_when_told_so(serve: Serve) -> None:
    """Some engines do not notice that the caller of a request without stream is gone."""
    stubborn, polite = ScriptedModel(stops_unary=False), ScriptedModel()
    gone = threading.Event()
    for model in (stubborn, polite):
        model.when("go").say("a b c d e", held=gone)
        with closing(HTTPConnection(urlsplit(serve(model.app)).netloc)) as caller:
            caller.request("POST", "/v1/chat/completions", json.dumps(body("go")))
            model.wait_until(lambda m: m.running == 1)
    polite.wait_until(lambda m: m.aborted == 1)
    gone.set()
    stubborn.wait_until(lambda m: m.running == 0)

    assert (stubborn.answered, stubborn.words_sent) == (1, 5)
    assert polite.words_sent == 0


def test_words_are_held_until_the_test_lets_them_go(
    http: httpx2.Client, model: ScriptedModel
) -> None:
    """A test that looks at half an answer must find half an answer, however slow it is."""
    held = threading.Event()
    model.when("go").say("one two three", held=held, held_after=2)

    with http.stream("POST", "/v1/chat/completions", json=body("go", stream=True)) as answer:
        lines = (line for line in answer.iter_lines() if '"content":"' in line)
        first = [next(lines), next(lines)]
        before = model.words_sent
        held.set()
        rest = list(lines)

    assert ["one " in first[0], "two " in first[1], "three" in rest[0]] == [True] * 3
    assert (before, len(rest)) == (2, 1)


def test_several_choices_thoughts_and_log_probabilities(
    http: httpx2.Client, model: ScriptedModel
) -> None:
    """What clients may ask for, the gateway's tests can have."""
    model.when("x").say("a b", thoughts="hm")
    answer = http.post("/v1/chat/completions", json=body("x", n=2, logprobs=True)).json()

    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert answer["choices"][1]["message"]["reasoning_content"] == "hm"
    tokens = [entry["token"] for entry in answer["choices"][1]["logprobs"]["content"]]
    assert tokens == ["hm", "a ", "b"]


def test_plain_completions_and_embeddings(http: httpx2.Client) -> None:
    """The other two endpoints that carry tokens."""
    text = http.post("/v1/completions", json={"model": "small", "prompt": "a b"}).json()
    vector = http.post("/v1/embeddings", json={"model": "small", "input": ["abc"]}).json()

    assert text["choices"][0]["text"] == "a b"
    assert vector["data"][0]["embedding"] == [3.0, 0.5]


def test_health_slots_and_metrics_are_llama_servers(
    http: httpx2.Client, model: ScriptedModel
) -> None:
    """What watches a real expert can watch this one."""
    assert http.get("/health").status_code == 200
    assert http.get("/slots").json()[0] == {"id": 0, "is_processing": False}
    assert "llamacpp:tokens_predicted_total 0" in http.get("/metrics").text
    model.loading = True
    assert http.get("/health").json()["error"]["message"] == "Loading model"
