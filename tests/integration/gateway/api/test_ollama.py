"""Ollama's API: what reaches the model, what comes back, what is refused."""

import json
import math
import subprocess
import sys
import threading
import time
from base64 import b64encode
from typing import Any

import httpx2
import pytest

from hearth.openai_api.scripts import Script
from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import Json, Lab, caller, send_raw

PATH = "/api/chat"
TOOL: Json = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object"}},
}
PICTURE = b64encode(b"\x89PNG\r\n\x1a\n").decode()
PICTURE_PART: Json = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
SCHEMA: Json = {"type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    return lab.gateway(lab.expert(model, slots=4, embeddings=True, context=2048))


def ask(gateway: httpx2.Client, said: Any = "hello", **fields: Any) -> httpx2.Response:
    """One chat; `said` is the content of the only message, or all the messages."""
    turns = said if isinstance(said, list) else [{"role": "user", "content": said}]
    body = {"model": "small", "messages": turns, "stream": False, **fields}
    return gateway.post(PATH, json=body)


def generate(gateway: httpx2.Client, prompt: str = "hello", **fields: Any) -> httpx2.Response:
    body = {"model": "small", "prompt": prompt, "stream": False, **fields}
    return gateway.post("/api/generate", json=body)


def lines(answer: httpx2.Response) -> list[Json]:
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_whole_answer_has_text_thoughts_and_counts(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """Under Ollama's names; options reach the model under those of llama-server."""
    model.when("hello").say("Good day to you.", thoughts="They greet me.")

    options = {"temperature": 0.5, "top_k": 5, "num_predict": 50, "stop": ["END"], "num_ctx": 4096}
    answer = ask(gateway, options=options, think=True, keep_alive="5m")

    found = answer.raise_for_status().json()
    assert found["message"] == {
        "role": "assistant", "content": "Good day to you.", "thinking": "They greet me.",
    }  # fmt: skip
    assert (found["model"], found["done"], found["done_reason"]) == ("small", True, "stop")
    assert found["prompt_eval_count"] == 1
    assert found["eval_count"] == 4 + 3
    assert found["total_duration"] > 0
    assert "; ignored options: num_ctx" in answer.headers["x-hearth-route"]
    sent = model.requests[0].body
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert (sent["temperature"], sent["top_k"], sent["max_tokens"]) == (0.5, 5, 50)
    assert (sent["stop"], sent["chat_template_kwargs"]) == (["END"], {"enable_thinking": True})
    assert sent.keys().isdisjoint(("options", "think", "keep_alive", "num_ctx"))


def test_stream_is_lines_and_calls_are_whole(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """Which is what a request without the field `stream` gets."""
    calls = (("weather", {"place": "Oslo"}), ("weather", {"place": "Rome"}))
    model.when("where").say("").scripts[0] = Script(("I ", "look."), ("Hm. ", "Well."), calls)
    turns = [{"role": "user", "content": "where"}]

    answer = gateway.post(PATH, json={"model": "small", "messages": turns, "tools": [TOOL]})
    found = lines(answer)

    messages = [line["message"] for line in found]
    assert "".join(one.get("thinking", "") for one in messages) == "Hm. Well."
    assert "".join(one["content"] for one in messages) == "I look."
    told = [call["function"] for one in messages for call in one.get("tool_calls", ())]
    assert told == [
        {"name": "weather", "arguments": {"place": place}} for place in ("Oslo", "Rome")
    ]
    assert [line["done"] for line in found] == [False] * (len(found) - 1) + [True]
    assert found[-1]["eval_count"] > 0
    assert model.requests[0].body["tools"] == [TOOL]


def test_results_of_tools_go_to_their_calls(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """Ollama's clients name neither the call nor its id in a result."""
    calls = [{"function": {"name": name, "arguments": {"n": 1}}} for name in ("weather", "time")]
    turns: list[Json] = [
        {"role": "user", "content": "where?"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_name": "time", "content": "noon"},
        {"role": "tool", "content": "rain"},
    ]
    ask(gateway, turns, tools=[TOOL]).raise_for_status()

    sent = model.requests[0].body["messages"]
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert [json.loads(one["function"]["arguments"]) for one in sent[1]["tool_calls"]] == [
        {"n": 1}, {"n": 1},
    ]  # fmt: skip
    assert [(one["tool_call_id"], one["content"]) for one in sent[2:]] == [
        (ids[1], "noon"), (ids[0], "rain"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        ("json", {"type": "json_object"}),
        (
            SCHEMA,
            {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            },
        ),
    ],
)
@pytest.mark.parametrize("send", [ask, generate])
def test_form_of_the_answer_reaches_the_model(
    gateway: httpx2.Client, model: ScriptedModel, send: Any, form: Any, sent: Json
) -> None:
    """Its engine holds the answer to it."""
    send(gateway, format=form).raise_for_status()

    assert model.requests[0].body["response_format"] == sent


def test_pictures_reach_the_model(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """As data with a media type, which Ollama's clients do not send."""
    ask(gateway, [{"role": "user", "content": "what?", "images": [PICTURE]}]).raise_for_status()
    generate(gateway, "what?", images=[PICTURE]).raise_for_status()

    for request in model.requests:
        parts = request.body["messages"][0]["content"]
        assert parts == [{"type": "text", "text": "what?"}, PICTURE_PART]


def test_prompt_is_a_chat_and_a_raw_one_is_continued(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """So the model's own template is used unless the caller has used one."""
    model.when("hello").say("Good day.")

    whole = generate(gateway, system="Be polite.").json()
    streamed = lines(generate(gateway, stream=True))
    raw = generate(gateway, raw=True).json()
    raw_streamed = lines(generate(gateway, raw=True, stream=True))

    assert (whole["response"], raw["response"]) == ("Good day.", "Good day.")
    for found in (streamed, raw_streamed):
        assert "".join(line["response"] for line in found) == "Good day."
        assert found[-1]["done"] is True
    assert [request.path for request in model.requests] == [
        "/v1/chat/completions", "/v1/chat/completions", "/v1/completions", "/v1/completions",
    ]  # fmt: skip
    assert model.requests[0].body["messages"][0] == {"role": "system", "content": "Be polite."}
    assert model.requests[2].body["prompt"] == "hello"


def test_vectors_have_length_one(gateway: httpx2.Client) -> None:
    """Those of the older path are as the model gives them, as Ollama's are."""
    body = {"model": "small", "input": ["one", "two"]}
    found = gateway.post("/api/embed", json=body).raise_for_status().json()
    old = gateway.post("/api/embeddings", json={"model": "small", "prompt": "one"}).json()

    assert len(found["embeddings"]) == 2
    assert all(math.isclose(math.hypot(*one), 1) for one in found["embeddings"])
    assert found["prompt_eval_count"] > 0
    assert set(old) == {"embedding"}
    scale = math.hypot(*old["embedding"])
    assert old["embedding"] == pytest.approx([x * scale for x in found["embeddings"][0]])


@pytest.mark.parametrize(
    ("path", "fields", "answer"),
    [
        (PATH, {}, {"message": {"role": "assistant", "content": ""}, "done_reason": "load"}),
        (PATH, {"messages": [], "keep_alive": 0}, {"done_reason": "unload"}),
        ("/api/generate", {}, {"response": "", "done": True}),
        ("/api/embed", {"input": ""}, {"embeddings": []}),
        ("/api/embeddings", {"prompt": ""}, {"embedding": []}),
    ],
)
def test_empty_prompt_is_answered_at_once(
    lab: Lab, model: ScriptedModel, tmp_path: Any, path: str, fields: Json, answer: Json
) -> None:
    """It loads a model in Ollama, and asks nobody here; who could not ask that model is told."""
    gateway = lab.gateway(lab.expert(model), key_store=tmp_path / "keys.db")
    limits = {"name": "guest", "models": ["other"]}
    made = gateway.post("/api/keys", json=limits).raise_for_status().json()
    with caller(str(gateway.base_url), made["key"]) as guest:
        forbidden = guest.post(path, json={"model": "small", **fields})
    found = gateway.post(path, json={"model": "small:latest", **fields})
    automatic = gateway.post(path, json={"model": "auto", **fields})
    unknown = gateway.post(path, json={"model": "smal", **fields})

    assert found.status_code == 200, found.text
    assert found.json().items() >= answer.items()
    assert found.headers["x-hearth-route"] == "answered by the gateway itself"
    assert (automatic.status_code, forbidden.status_code) == (200, 403)
    assert unknown.status_code == 404
    assert "Did you mean 'small'" in unknown.json()["error"]
    assert model.requests == []


def test_default_model_stands_for_a_name_that_nobody_has(lab: Lab, model: ScriptedModel) -> None:
    """Also where nothing is asked of it."""
    gateway = lab.gateway(lab.expert(model), default_model="small")

    loaded = gateway.post("/api/generate", json={"model": "llama3.2:latest"})
    answer = generate(gateway, model="llama3.2")

    assert (loaded.status_code, answer.status_code) == (200, 200)
    assert answer.json()["model"] == "llama3.2"


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        (PATH, {"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        (PATH, {"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        (PATH, {"messages": 7}, "messages"),
        (PATH, {"messages": [{"role": "user", "images": ["no"]}]}, "messages[0].images[0]"),
        (PATH, {"options": 7}, "options"),
        (PATH, {"options": {"num_predict": "x"}}, "options.num_predict"),
        (PATH, {"messages": [{"role": "user", "content": "x"}], "format": "xml"}, "format"),
        (PATH, {"messages": [{"role": "user", "content": "x"}], "think": "very"}, "think"),
        (PATH, {"model": ""}, "model"),
        ("/api/generate", {"prompt": "x", "context": [1]}, "context"),
        ("/api/generate", {"prompt": "x", "template": "y"}, "template"),
        ("/api/generate", {"prompt": "x", "raw": True, "format": "json"}, "format"),
        ("/api/embed", {"input": 7}, "input"),
        ("/api/embed", {"input": "x", "dimensions": -1}, "dimensions"),
    ],
)
def test_what_does_not_fit_is_refused_in_ollamas_form(
    gateway: httpx2.Client, model: ScriptedModel, path: str, fields: Json, words: str
) -> None:
    """Its clients show the text of `error`."""
    answer = gateway.post(path, json={"model": "small", **fields})

    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]
    assert model.requests == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", PATH), ("POST", "/api/embed"), ("GET", "/api/tags"), ("GET", "/api/ps"),
        ("GET", "/api/version"), ("POST", "/api/show"), ("POST", "/api/pull"),
    ],
)  # fmt: skip
def test_nothing_is_told_without_a_key(gateway: httpx2.Client, method: str, path: str) -> None:
    """Ollama itself asks for none; a gateway of a house does."""
    with caller(str(gateway.base_url), "sk-wrong") as stranger:
        answer = stranger.request(method, path, json={"model": "small"})

    assert answer.status_code == 401
    assert "Incorrect API key" in answer.json()["error"]


def test_another_method_is_refused(gateway: httpx2.Client) -> None:
    """With what is meant."""
    answer = gateway.get(PATH)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json() == {"error": "/api/chat takes POST, not GET."}


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_failure_of_a_server_is_told(
    gateway: httpx2.Client, model: ScriptedModel, status: int
) -> None:
    """With its status, in Ollama's form, for a stream too."""
    model.when("x").refuse(status, "It says no.")

    for stream in (False, True):
        answer = ask(gateway, "x", stream=stream)
        assert answer.status_code == status
        assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("how", ["reset", "close", "malformed", "error"])
def test_stream_that_breaks_ends_with_an_error(
    gateway: httpx2.Client, model: ScriptedModel, how: Any
) -> None:
    """Clients raise at it; without it, half an answer would look whole."""
    model.when("go").lose("one two three", after=2, how=how, pause=0.02)

    found = lines(ask(gateway, "go", stream=True))

    assert set(found[-1]) == {"error"}
    assert not any(line.get("done") for line in found)


def test_stream_that_waits_stays_lines_of_json(lab: Lab, model: ScriptedModel) -> None:
    """Signs of life are blanks, which JSON may begin with; an event's comment would be no JSON."""
    held = threading.Event()
    model.when("go").say("Now.", held=held)
    gateway = lab.gateway(lab.expert(model), keepalive_seconds=0.05)

    body = {"model": "small", "messages": [{"role": "user", "content": "go"}]}
    with gateway.stream("POST", PATH, json=body) as answer:
        pieces = answer.iter_text()
        first = next(pieces)
        held.set()
        rest = first + "".join(pieces)

    assert first.strip(" ") == ""
    found = [json.loads(line) for line in rest.splitlines()]
    assert "".join(line["message"]["content"] for line in found) == "Now."
    assert answer.headers["content-type"] == "application/x-ndjson"


@pytest.mark.parametrize("stream", [True, False])
def test_caller_that_hangs_up_frees_the_expert(
    gateway: httpx2.Client, model: ScriptedModel, *, stream: bool
) -> None:
    """Which is how Ollama's programs cancel."""
    model.when("go").say("word " * 5000, pause=0.01)
    body = {"model": "small", "prompt": "go", "stream": stream}

    connection = send_raw(gateway, body, "/api/generate")
    model.wait_until(lambda m: m.words_sent >= 5)
    hung_up = time.monotonic()
    connection.close()

    model.wait_until(lambda m: m.aborted == 1)
    ended = model.requests[0].ended
    assert ended is not None
    assert ended - hung_up < 20
    assert model.words_sent < 5000


def test_budget_and_scope_hold_here_too(lab: Lab, model: ScriptedModel, tmp_path: Any) -> None:
    """Another API is no way around a key's limits."""
    gateway = lab.gateway(lab.expert(model), key_store=tmp_path / "keys.db")
    limits = {"models": ["small"], "tokens_per_day": 5}
    made = gateway.post("/api/keys", json={"name": "guest", **limits}).raise_for_status().json()
    with caller(str(gateway.base_url), made["key"]) as guest:
        other = ask(guest, "x", model="auto")
        first = ask(guest, "one two three four")
        second = ask(guest, "x")
        tags = guest.get("/api/tags").json()["models"]
        shown = guest.post("/api/show", json={"model": "auto"})

    assert (other.status_code, first.status_code, second.status_code) == (403, 200, 429)
    assert "may not use the model 'auto'" in other.json()["error"]
    assert "has spent its 5 tokens" in second.json()["error"]
    assert [one["name"] for one in tags] == ["small"]
    assert (shown.status_code, set(shown.json())) == (403, {"error"})


def test_models_are_listed_and_described(gateway: httpx2.Client) -> None:
    """Programs take names and capabilities from here."""
    tags = gateway.get("/api/tags").json()["models"]
    loaded = gateway.get("/api/ps").json()["models"]
    shown = gateway.post("/api/show", json={"model": "small:latest"}).json()
    automatic = gateway.post("/api/show", json={"name": "auto"}).json()
    unknown = gateway.post("/api/show", json={"model": "smal"})

    assert [one["model"] for one in tags] == ["auto", "small"]
    assert [(one["name"], one["context_length"]) for one in loaded] == [("small", 2048)]
    assert shown["model_info"] == {
        "general.architecture": "hearth", "hearth.context_length": 2048,
    }  # fmt: skip
    assert shown["capabilities"] == ["completion", "tools", "embedding"]
    assert "completion" in automatic["capabilities"]
    assert unknown.status_code == 404
    assert "Did you mean 'small'" in unknown.json()["error"]
    assert gateway.get(f"{gateway.base_url}/api/version").json() == {"version": "0.14.2"}


@pytest.mark.parametrize("name", ["pull", "push", "create", "copy", "delete"])
def test_models_are_not_changed_from_outside(gateway: httpx2.Client, name: str) -> None:
    """The message says what does it."""
    method = "DELETE" if name == "delete" else "POST"
    answer = gateway.request(method, f"/api/{name}", json={"model": "llama3.2"})

    assert answer.status_code == 403
    assert "hearth models" in answer.json()["error"]


def test_package_is_imported_with_its_first_request() -> None:
    """Whoever does not speak this API does not pay for it."""
    told = "import sys, moe_gateway.__main__; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "moe_gateway.requests.pipeline" in found
    assert [name for name in found if name.startswith("moe_gateway.api.ollama.")] == [
        "moe_gateway.api.ollama.routes"
    ]
