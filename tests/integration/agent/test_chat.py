"""Workflows as models of OpenAI's API, over real sockets."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import OpenAI

from hearth.openai_api.scripts import Rule
from tests.integration.agent.conftest import House

CHAT = "/v1/chat/completions"


def hello(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "agent", "messages": [{"role": "user", "content": text}], **more}


def events(text: str) -> list[Any]:
    """The data of each event of a stream."""
    found = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in found]


@pytest.mark.proves("004-14")
def test_agent_answers_the_official_client_streaming_and_not(house: House) -> None:
    """Whatever speaks to OpenAI speaks to the house."""
    held = threading.Event()
    rule = house.model.when("hello").say("Good day to you.")
    rule.say("Good day to you.", held=held, held_after=1)
    with OpenAI(base_url=f"{house.address}/v1", api_key=house.key, max_retries=0) as client:
        names = [model.id for model in client.models.list()]
        whole = client.chat.completions.create(
            model="agent", messages=[{"role": "user", "content": "hello"}]
        )
        stream = client.chat.completions.create(
            model="workflow/agent-turn",
            messages=[{"role": "user", "content": "hello"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = []
        for chunk in stream:
            chunks.append(chunk)
            if chunk.choices and chunk.choices[0].delta.content:
                held.set()  # The rest is not said before the beginning is heard.

    assert names[0] == "agent"
    assert whole.choices[0].message.content == "Good day to you."
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    said = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
    assert "".join(said) == "Good day to you."
    assert len(said) > 1
    assert chunks[-1].usage == whole.usage


@pytest.mark.proves("004-15")
@pytest.mark.proves("004-17")
def test_twenty_callers_at_once_each_get_their_own_answer(house: House) -> None:
    """A reply goes to who asked, as the output of the run that the question became."""

    def ask(number: int) -> tuple[str, str]:
        answer = house.ask(f"my number is {number}", stream=number % 2 == 0)
        run = answer.headers["x-hearth-run"]
        if number % 2:
            assert answer.status_code == 200, answer.text
            return run, answer.json()["choices"][0]["message"]["content"]
        chunks = [chunk for chunk in events(answer.text) if chunk != "[DONE]"]
        return run, "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)

    with ThreadPoolExecutor(20) as callers:
        answers = list(callers.map(ask, range(20)))

    assert [text for _, text in answers] == [f"my number is {number}" for number in range(20)]
    assert len({run for run, _ in answers}) == 20
    with house.client() as client:
        for number, (run, _) in enumerate(answers):
            view = client.get(f"/api/runs/{run}").json()
            assert view["outputs"]["text"] == f"my number is {number}"


@pytest.mark.parametrize("stream", [True, False])
def test_run_is_cancelled_when_its_caller_hangs_up(house: House, *, stream: bool) -> None:
    """Nobody reads the rest, and the model is free for the next one."""
    house.model.when("hello").say("word " * 1000, pause=0.05)
    with house.client() as client:
        body = hello(stream=stream)
        if stream:
            with client.stream("POST", CHAT, json=body) as answer:
                next(answer.iter_lines())
        else:
            where = urlsplit(house.address)
            caller = HTTPConnection(where.hostname or "", where.port, timeout=60)
            headers = {**client.headers, "content-type": "application/json"}
            caller.request("POST", CHAT, json.dumps(body), headers)
            house.model.wait_until(lambda model: model.words_sent > 0)
            caller.close()
        house.model.wait_until(lambda model: model.aborted == 1)
        (run,) = client.get("/api/runs").json()["runs"]
        ended = client.post(f"/api/runs/{run['id']}/cancel").json()

    assert ended["status"] == "cancelled"
    assert [step["status"] for step in ended["steps"]] == ["done", "cancelled", "cancelled"]


@pytest.mark.parametrize("stream", [True, False])
def test_failure_before_the_first_word_has_a_status_and_is_not_to_be_repeated(
    house: House, *, stream: bool
) -> None:
    """Clients send what ends with 5xx again; a run that may have had effects must not be."""
    house.model.when("hello").refuse(503, "no expert is healthy")

    answer = house.ask("hello", stream=stream)

    assert answer.status_code == 502
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-hearth-run"]
    error = answer.json()["error"]
    assert error["code"] == "run_failed"
    assert "no expert is healthy" in error["message"]


def test_failure_after_the_first_word_ends_the_stream_with_an_error_event(house: House) -> None:
    """A stream that ends cleanly looks like success to the official clients."""
    house.model.when("hello").lose("one two three", after=2, pause=0.05)

    answer = house.ask("hello", stream=True)

    assert answer.status_code == 200
    *chunks, last = events(answer.text)
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks).startswith("one")
    assert last["error"]["code"] == "run_failed"
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        (hello() | {"model": "agnt"}, 404, "model_not_found", "Did you mean 'agent'?"),
        (hello() | {"model": "workflow/agent"}, 404, "model_not_found", "workflow/agent-turn"),
        (hello() | {"messages": []}, 400, "empty_array", "messages"),
        (hello() | {"messages": [{"role": "robot"}]}, 400, "invalid_value", "messages.0.role"),
        (hello() | {"messages": [{"role": "system", "content": "x"}]}, 400, "no_user_message", ""),
        (hello(conversation=""), 400, "string_below_min_length", "conversation"),
        (hello(max_tokens=-5), 400, "integer_below_min_value", "max_tokens"),
        (hello(max_completion_tokens=0), 400, "integer_below_min_value", "max_completion_tokens"),
        (hello(temperature=-1), 400, "decimal_below_min_value", "temperature"),
        (hello(response_format={"type": "xml"}), 400, "invalid_value", "response_format.type"),
        (hello(response_format={"type": "json_object"}), 400, "unsupported_field", "no `response_"),
        (hello(n=2), 400, "unsupported_field", "no `n`"),
        (hello(stop=["\n"]), 400, "unsupported_field", "no `stop`"),
        (hello(logprobs=True), 400, "unsupported_field", "no `logprobs`"),
        (hello(functions=[{"name": "f"}]), 400, "unsupported_field", "brings its own tools"),
        (hello(tool_choice="required"), 400, "unsupported_field", "brings its own tools"),
        (hello(logit_bias={"1": 5}), 400, "unsupported_field", "no `logit_bias`"),
        (hello(top_logprobs=2), 400, "unsupported_field", "no `top_logprobs`"),
        (hello(modalities=["text", "audio"]), 400, "unsupported_field", "no `modalities`"),
        (hello(web_search_options={}), 400, "unsupported_field", "no `web_search_options`"),
    ],
)
def test_wrong_request_is_refused_in_the_words_of_openai(
    house: House, body: dict[str, Any], status: int, code: str, said: str
) -> None:
    """Clients show `error.message` to people, and nothing else."""
    with house.client() as client:
        answer = client.post(CHAT, json=body)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert said in error["message"]
    assert house.model.requests == []


def test_history_is_the_callers_unless_a_conversation_is_named(house: House) -> None:
    """OpenAI clients send the whole history; the web page names a conversation instead."""
    first = [
        {"role": "user", "content": "I am Ada."},
        {"role": "assistant", "content": "Hello, Ada."},
        {"role": "user", "content": "Who am I?"},
    ]
    with house.client() as client:
        client.post(CHAT, json={"model": "agent", "messages": first})
        client.post(CHAT, json=hello("I am Bo.", conversation="c-1"))
        client.post(CHAT, json=hello("Who am I?", conversation="c-1"))
        client.post(CHAT, json=hello("Who am I?", conversation="c-2"))
        listed = client.get("/api/conversations").json()["conversations"]
        turns = client.get("/api/conversations/c-1").json()["turns"]
        unknown = client.get("/api/conversations/c-3")

    asked = [
        [m["content"] for m in request.body["messages"] if m["role"] != "system"]
        for request in house.model.requests
    ]
    assert asked == [
        ["I am Ada.", "Hello, Ada.", "Who am I?"],
        ["I am Bo."],
        ["I am Bo.", "I am Bo.", "Who am I?"],
        ["Who am I?"],
    ]
    assert [(c["id"], c["title"]) for c in listed] == [("c-2", "Who am I?"), ("c-1", "I am Bo.")]
    assert (turns[0]["user"], turns[0]["assistant"]) == ("I am Bo.", "I am Bo.")
    assert unknown.status_code == 404


def test_instructions_of_the_caller_join_our_own_in_one_system_message(house: House) -> None:
    """Templates of small models take one system message, and know no `developer`."""
    with house.client() as client:
        rules = {"role": "developer", "content": "Speak like a pirate."}
        body = hello()
        client.post(CHAT, json={**body, "messages": [rules, *body["messages"]]})

    system, user = house.model.requests[0].body["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Speak like a pirate." in system["content"]
    assert "You are Hearth" in system["content"]


@pytest.mark.proves("004-19")
def test_agent_saves_a_note_and_finds_it_in_another_conversation(house: House) -> None:
    """The loop of model and tools, from a YAML document, over the API: what one keeps is kept."""
    house.model.when("remember").call_tool("note_save", {"text": "The key is under the mat."})
    house.model.when("where").call_tool("note_find", {"query": "key"})
    house.model.when("under the mat").say("It is under the mat.")

    saved = house.ask("remember: the key is under the mat", conversation="c-1")
    found = house.ask("where is the thing", conversation="c-2")

    assert saved.status_code == found.status_code == 200
    assert found.json()["choices"][0]["message"]["content"] == "It is under the mat."
    with house.client() as client:
        view = client.get(f"/api/runs/{found.headers['x-hearth-run']}").json()
    steps = [(step["path"], step["tool"], step["status"]) for step in view["steps"]]
    assert steps == [
        ("history", "conversation.recall", "done"),
        ("reply", "agent", "done"),
        ("reply/turn[1]/llm", "llm", "done"),
        ("reply/turn[1]/call[0]", "note.find", "done"),
        ("reply/turn[2]/llm", "llm", "done"),
    ]
    assert view["steps"][3]["output"]["notes"][0]["text"] == "The key is under the mat."
    usage = found.json()["usage"]
    assert usage["completion_tokens"] == view["tokens"]["completion"]


@pytest.mark.parametrize("tools", ["native", "grammar", "none"])
def test_tools_are_offered_only_to_a_model_that_takes_them(empty_house: House, tools: str) -> None:
    """A model whose template ignores tools would read their schemas as noise."""
    empty_house.model.expert["tools"] = tools

    with empty_house.running():
        empty_house.ask("hello")

    offered = [t["function"]["name"] for t in empty_house.model.requests[0].body.get("tools", [])]
    every = ["time_now", "cluster_status", "rag_search", "note_save", "note_find", "autonomy_start"]
    assert offered == ([] if tools == "none" else every)


def test_sampling_that_the_caller_asks_for_reaches_the_model(house: House) -> None:
    """A client that limits the length of an answer gets a short one, whichever name it knows; what
    it sends by habit, and is as it would be without, is no reason to refuse."""
    empty: dict[str, Any] = {
        "n": 1,
        "stop": [],
        "logprobs": False,
        "response_format": {"type": "text"},
    }
    house.ask("hello", max_tokens=5, temperature=0.0, **empty, user="me", store=False)
    house.ask("hello", max_completion_tokens=6, max_tokens=None)

    first, second = (request.body for request in house.model.requests)
    assert (first["max_tokens"], first["temperature"]) == (5, 0.0)
    assert second["max_tokens"] == 6


def test_wishes_that_have_no_effect_are_named(house: House) -> None:
    """A wish is no reason to refuse, but whoever reads the header sees that it did nothing."""
    none = house.ask("hello", max_tokens=5, tool_choice="auto", metadata={"a": "b"})
    some = house.ask("hello", max_tokens=5, top_p=0.5, seed=7, modalities=["text"])

    assert "x-hearth-ignored" not in none.headers
    assert some.headers["x-hearth-ignored"] == "top_p, seed"


def test_workflow_that_takes_a_form_gets_it(empty_house: House) -> None:
    """A document that hands it to its model may be asked for JSON."""
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    (empty_house.state / "workflows").mkdir()
    (empty_house.state / "workflows" / "formed.yaml").write_text("""
id: formed
inputs: {messages: messages, response_format: "object?"}
steps:
  - id: said
    use: llm
    with: {messages: "{{ inputs.messages }}", response_format: "{{ inputs.response_format }}"}
outputs: {text: "{{ said.text }}"}
""")
    with empty_house.running():
        answer = empty_house.ask("hello", model="workflow/formed", response_format=form)

    assert answer.status_code == 200, answer.text
    assert empty_house.model.requests[0].body["response_format"] == form


@pytest.mark.parametrize("stream", [True, False])
def test_answer_that_was_cut_off_says_so(house: House, *, stream: bool) -> None:
    """A client offers to go on where the limit of tokens ended the answer."""
    house.model.when("hello").say("Good day to", finish="length")

    answer = house.ask("hello", stream=stream)

    last = events(answer.text)[-2] if stream else answer.json()
    assert last["choices"][0]["finish_reason"] == "length"


def test_cancelled_run_is_told_to_the_caller_who_waits(house: House) -> None:
    """Somebody else pressed stop: that is no success, and no reason to start again."""
    rule: Rule = house.model.when("hello")
    rule.hang()
    with house.client() as client, ThreadPoolExecutor(1) as callers:
        waiting = callers.submit(house.ask, "hello")
        house.model.wait_until(lambda model: model.running == 1)
        (run,) = client.get("/api/runs").json()["runs"]
        client.post(f"/api/runs/{run['id']}/cancel")
        answer = waiting.result()

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "run_cancelled")
    assert answer.headers["x-should-retry"] == "false"
