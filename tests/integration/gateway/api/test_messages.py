"""`/v1/messages`, Anthropic's API: what reaches the model, what comes back, what is refused."""

import json
from base64 import b64encode
from typing import Any

import httpx2
import pytest

from hearth.openai_api.scripts import Script
from hearth.openai_api.testing import ScriptedModel
from tests.integration.gateway.conftest import CHAT, KEY, Json, Lab, caller, chat, events

PATH = "/v1/messages"
TOOL: Json = {
    "name": "weather", "description": "Tells it.", "input_schema": {"type": "object"},
}  # fmt: skip
PICTURE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
}
PICTURE_PART: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
def gateway(lab: Lab, model: ScriptedModel) -> httpx2.Client:
    return lab.gateway(lab.expert(model, slots=4))


def ask(gateway: httpx2.Client, said: Any = "hello", **fields: Any) -> httpx2.Response:
    """One request; `said` is the content of the only turn, or all the turns."""
    many = isinstance(said, list) and "role" in said[0]
    turns = said if many else [{"role": "user", "content": said}]
    body = {"model": "small", "max_tokens": 50, "messages": turns, **fields}
    return gateway.post(PATH, json=body)


def test_whole_message_has_text_thoughts_and_usage(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """Under Anthropic's names; what was asked reaches the model under those of a chat."""
    model.when("hello").say("Good day to you.", thoughts="They greet me.")

    answer = ask(
        gateway, system="Be polite.", temperature=0.5, top_k=5, stop_sequences=["END"],
        metadata={"user_id": "me"}, thinking={"type": "enabled", "budget_tokens": 1024},
    )  # fmt: skip

    found = answer.raise_for_status().json()
    assert (found["type"], found["role"], found["stop_reason"]) == (
        "message", "assistant", "end_turn",
    )  # fmt: skip
    assert [block["type"] for block in found["content"]] == ["thinking", "text"]
    assert found["content"][0]["thinking"] == "They greet me."
    assert found["content"][1]["text"] == "Good day to you."
    assert found["usage"]["input_tokens"] == 3
    assert found["usage"]["output_tokens"] == 4 + 3
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    assert answer.headers["x-hearth-route"]
    sent = model.requests[0].body
    assert sent["messages"] == [
        {"role": "system", "content": "Be polite."},
        {"role": "user", "content": "hello"},
    ]
    assert (sent["max_tokens"], sent["temperature"], sent["top_k"]) == (50, 0.5, 5)
    assert (sent["stop"], sent["user"], sent["thinking_budget_tokens"]) == (["END"], "me", 1024)
    assert sent.keys().isdisjoint(("system", "thinking", "stop_sequences", "metadata"))


def test_stream_has_every_event_in_its_order(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """Thoughts, text and two calls are blocks of their own, one after the other."""
    calls = (("weather", {"place": "Oslo"}), ("weather", {"place": "Rome"}))
    model.when("where").say("").scripts[0] = Script(("I ", "look."), ("Hm. ", "Well."), calls)

    answer = ask(gateway, "where", stream=True, tools=[TOOL])
    found = events(answer)
    names = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]

    kinds = [event["type"] for event in found]
    assert names == kinds
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    starts = [one["content_block"] for one in found if one["type"] == "content_block_start"]
    assert [one["type"] for one in starts] == ["thinking", "text", "tool_use", "tool_use"]
    stops = [one["index"] for one in found if one["type"] == "content_block_stop"]
    assert stops == [0, 1, 2, 3]
    deltas = [(one["index"], one["delta"]) for one in found if one["type"] == "content_block_delta"]
    joined: dict[int, str] = {}
    for index, delta in deltas:
        value = next(delta[name] for name in ("thinking", "text", "partial_json") if name in delta)
        joined[index] = joined.get(index, "") + value
    assert (joined[0], joined[1]) == ("Hm. Well.", "I look.")
    assert [json.loads(joined[n])["place"] for n in (2, 3)] == ["Oslo", "Rome"]
    assert found[-2]["delta"]["stop_reason"] == "tool_use"
    assert found[-2]["usage"]["output_tokens"] > 0
    assert "[DONE]" not in answer.text


def test_calls_and_their_results_go_to_the_model(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """The second turn has thoughts, two calls, their results (one a failure, one with a picture)
    and words of the user beside them."""
    calls = [
        {"type": "tool_use", "id": f"toolu_{n}", "name": "weather", "input": {"n": n}}
        for n in (1, 2)
    ]
    results: list[Json] = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [PICTURE]},
    ]
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = {"type": "text", "text": "I look."}
    turns: list[Json] = [
        {"role": "user", "content": "where?"},
        {"role": "assistant", "content": [thought, said, *calls]},
        {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]},
    ]
    ask(gateway, turns, tools=[TOOL]).raise_for_status()

    sent = model.requests[0].body
    assert sent["messages"][1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Hm.",
        "tool_calls": [
            {
                "id": f"toolu_{n}",
                "type": "function",
                "function": {"name": "weather", "arguments": f'{{"n":{n}}}'},
            }
            for n in (1, 2)
        ],
    }
    assert sent["messages"][2:] == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "Error: no"},
        {"role": "tool", "tool_call_id": "toolu_2", "content": [PICTURE_PART]},
        {"role": "user", "content": "Go on."},
    ]
    function = {"name": "weather", "parameters": {"type": "object"}, "description": "Tells it."}
    assert sent["tools"] == [{"type": "function", "function": function}]


def test_pictures_and_documents_reach_the_model(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """A text document as text, which every model reads; others as they are."""

    def document(**source: str) -> Json:
        return {"type": "document", "title": "a", "source": source}

    pdf, csv = "JVBERg==", b64encode(b"x,y").decode()
    parts: list[Json] = [
        PICTURE,
        document(type="text", media_type="text/plain", data="words"),
        document(type="base64", media_type="text/csv", data=csv),
        document(type="base64", media_type="application/pdf", data=pdf),
    ]
    ask(gateway, parts).raise_for_status()

    assert model.requests[0].body["messages"][0]["content"] == [
        PICTURE_PART,
        {"type": "text", "text": "Document a:\nwords\n"},
        {"type": "text", "text": "Document a:\nx,y\n"},
        {
            "type": "file",
            "file": {"filename": "a", "file_data": f"data:application/pdf;base64,{pdf}"},
        },
    ]


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ({"tool_choice": {"type": "auto"}}, "tool_choice", "auto"),
        ({"tool_choice": {"type": "any"}}, "tool_choice", "required"),
        ({"tool_choice": {"type": "none"}}, "tool_choice", "none"),
        ({"tool_choice": {"type": "tool", "name": "weather"}}, "tool_choice", "required"),
        (
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            "parallel_tool_calls",
            False,
        ),
        ({"thinking": {"type": "disabled"}}, "chat_template_kwargs", {"enable_thinking": False}),
        ({"output_config": {"effort": "low"}}, "reasoning_effort", "low"),
        ({"min_p": 0.1}, "min_p", 0.1),
    ],
)
def test_field_reaches_the_model(
    gateway: httpx2.Client, model: ScriptedModel, fields: Json, field: str, value: Any
) -> None:
    """In the words of llama-server."""
    ask(gateway, tools=[TOOL], **fields).raise_for_status()

    assert model.requests[0].body[field] == value


@pytest.mark.parametrize("name", ["output_config", "output_format"])
def test_schema_holds_the_answer(gateway: httpx2.Client, model: ScriptedModel, name: str) -> None:
    """In its newer and in its older field."""
    form = {"type": "json_schema", "schema": {"type": "object"}}
    field = {name: {"format": form} if name == "output_config" else form}
    ask(gateway, **field).raise_for_status()

    sent = model.requests[0].body["response_format"]
    assert sent["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")],
)
@pytest.mark.parametrize("stream", [False, True])
def test_reason_of_the_end_is_told(
    gateway: httpx2.Client, model: ScriptedModel, finish: str, reason: str, *, stream: bool
) -> None:
    """A program must not take half a sentence for the end."""
    model.when("x").say("one two", finish=finish)

    answer = ask(gateway, "x", stream=stream)

    found = events(answer)[-2]["delta"] if stream else answer.json()
    assert found["stop_reason"] == reason


def test_cached_tokens_are_told_apart(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """Anthropic's input tokens are those that were not in the cache."""
    usage = {
        "prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 7},
    }  # fmt: skip
    message = {"role": "assistant", "content": "x"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    model.when("x").answer(json.dumps(body).encode())

    found = ask(gateway, "x").json()["usage"]

    assert (found["input_tokens"], found["cache_read_input_tokens"]) == (3, 7)
    assert (found["output_tokens"], found["cache_creation_input_tokens"]) == (2, 0)


def test_arguments_that_are_no_json_are_not_lost(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """Cut short, they must not look like a call without arguments."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"pla'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    model.when("x").answer(json.dumps({"object": "chat.completion", "choices": [choice]}).encode())

    block = ask(gateway, "x", tools=[TOOL]).json()["content"][0]

    assert block["input"] == {"invalid_json": '{"pla'}


def test_line_that_changes_with_every_turn_is_left_out(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """Claude Code begins its system texts with a checksum of the turn; the server's cache of the
    prompt would never fit."""
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=ab12;"},
        {"type": "text", "text": "You are Claude Code."},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    ]
    answer = ask(gateway, system=system)

    sent = model.requests[0].body["messages"][0]
    assert sent == {"role": "system", "content": "You are Claude Code.\n\nBe brief."}
    assert "left out a volatile system line" in answer.headers["x-hearth-route"]


def test_tools_of_anthropic_are_left_out_with_a_notice(
    gateway: httpx2.Client, model: ScriptedModel
) -> None:
    """They run on Anthropic's servers; Claude Code offers some."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    answer = ask(gateway, tools=[search, TOOL])

    assert len(model.requests[0].body["tools"]) == 1
    assert "left out tools of the kind web_search_20250305" in answer.headers["x-hearth-route"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "sound"}]}]}, "'sound'"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"tools": [{"type": "web_search_1"}], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "no"}}, "tool_choice"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"system": 7}, "system"),
        ({"output_format": {"type": "xml"}}, "output_config"),
    ],
)
@pytest.mark.parametrize("path", [PATH, f"{PATH}/count_tokens"])
def test_what_does_not_fit_is_refused_in_anthropics_form(
    gateway: httpx2.Client, model: ScriptedModel, fields: Json, words: str, path: str
) -> None:
    """Its clients show the message of this form, and nothing of another one."""
    body = {"model": "small", "messages": [{"role": "user", "content": "x"}], **fields}
    answer = gateway.post(path, json=body)

    assert answer.status_code == 400, answer.text
    found = answer.json()
    assert (found["type"], found["error"]["type"]) == ("error", "invalid_request_error")
    assert words in found["error"]["message"]
    assert model.requests == []


def test_address_of_a_picture_is_refused(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """A server would fetch it from inside of the house."""
    source = {"type": "url", "url": "http://10.0.0.1/a.png"}
    answer = ask(gateway, [{"type": "image", "source": source}])

    assert answer.status_code == 400
    assert "names an address" in answer.json()["error"]["message"]
    assert model.requests == []


@pytest.mark.parametrize("path", [PATH, f"{PATH}/count_tokens"])
def test_key_comes_in_either_header(
    gateway: httpx2.Client, model: ScriptedModel, path: str
) -> None:
    """Anthropic's clients send `x-api-key`, or a Bearer token where that is set. It goes no
    further, and opens the other routes too."""
    body = {"model": "small", "messages": [{"role": "user", "content": "x"}]}
    with caller(str(gateway.base_url)) as stranger:
        del stranger.headers["authorization"]
        right = stranger.post(path, json=body, headers={"x-api-key": KEY})
        wrong = stranger.post(path, json=body, headers={"x-api-key": "sk-wrong"})
        none = stranger.post(path, json=body)
        other = stranger.post(CHAT, json=chat("x"), headers={"x-api-key": KEY})

    assert (right.status_code, other.status_code) == (200, 200)
    for answer in (wrong, none):
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"
    assert all("x-api-key" not in request.headers for request in model.requests)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (404, "not_found_error"), (429, "rate_limit_error"),
     (500, "api_error"), (503, "overloaded_error")],
)  # fmt: skip
def test_failure_of_a_server_has_anthropics_type(
    gateway: httpx2.Client, model: ScriptedModel, status: int, kind: str
) -> None:
    """Clients choose by it whether they try again."""
    model.when("x").refuse(status, "It says no.")

    answer = ask(gateway, "x")

    assert answer.status_code == status
    assert answer.json()["error"]["type"] == kind
    assert answer.json()["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize("how", ["reset", "close", "malformed", "error"])
def test_stream_that_breaks_ends_with_an_error_event(
    gateway: httpx2.Client, model: ScriptedModel, how: Any
) -> None:
    """Clients raise at it; without it, half an answer would look whole."""
    model.when("go").lose("one two three", after=2, how=how, pause=0.02)

    found = events(ask(gateway, "go", stream=True))

    assert found[-1]["type"] == "error"
    assert found[-1]["error"]["type"] == "api_error"
    assert "message_stop" not in [event["type"] for event in found]


def test_tokens_are_counted_about(gateway: httpx2.Client, model: ScriptedModel) -> None:
    """A longer request has more of them; no server is asked."""
    short, long = (
        gateway.post(
            f"{PATH}/count_tokens",
            json={"model": "small", "messages": [{"role": "user", "content": "word " * n}]},
        ).json()["input_tokens"]
        for n in (1, 1000)
    )

    assert short >= 1
    assert 500 <= long <= 2000
    assert model.requests == []


def test_budget_and_scope_hold_here_too(lab: Lab, model: ScriptedModel, tmp_path: Any) -> None:
    """Another API is no way around a key's limits."""
    gateway = lab.gateway(lab.expert(model), key_store=tmp_path / "keys.db")
    limits = {"models": ["small"], "tokens_per_day": 5}
    made = gateway.post("/api/keys", json={"name": "guest", **limits}).raise_for_status().json()
    with caller(str(gateway.base_url), made["key"]) as guest:
        other = ask(guest, "x", model="auto")
        first = ask(guest, "one two three four")
        second = ask(guest, "x")

    assert (other.status_code, other.json()["error"]["type"]) == (403, "permission_error")
    assert first.status_code == 200
    assert (second.status_code, second.json()["error"]["type"]) == (429, "rate_limit_error")
    assert second.headers["x-should-retry"] == "false"
