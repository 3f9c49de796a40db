"""Requests that no model can answer: 400 in the words of OpenAI, and no part of them is dropped."""

import json
from typing import Any

import pytest

from tests.integration.agent.conftest import House

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
TOO_LONG = "The request has 9000 tokens, the context of the model 2048."
BLIND = "image input is not supported"
WRAPPED = """
id: wrapped
inputs: {messages: messages}
steps:
  - {id: inner, use: workflow/INNER, with: {messages: "{{ inputs.messages }}"}}
outputs: {text: "{{ inner.text }}"}
"""


def asked(*parts: Any, **more: Any) -> dict[str, Any]:
    """A request whose message has these parts after its text."""
    return {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, *parts]}]
    } | more


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["agent", "workflow/summarize", "workflow/two-drafts"])
def test_context_overflow_is_the_callers_and_has_openais_code(
    house: House, model: str, *, stream: bool
) -> None:
    """Programs shorten their history on this code; a 502 they would show as a broken server."""
    house.model.when("look").refuse(
        400, TOO_LONG, type="invalid_request_error", code="context_length_exceeded"
    )

    answer = house.ask("look", model=model, stream=stream)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["message"] == TOO_LONG
    assert error["type"] == "invalid_request_error"
    assert answer.headers["x-hearth-run"]


@pytest.mark.parametrize("model", ["agent", "workflow/agent-turn"])
def test_image_for_a_model_of_text_is_the_callers_mistake(house: House, model: str) -> None:
    """The words are those of the model that was sent the image."""
    house.model.when("look").refuse(400, BLIND, type="invalid_request_error")
    with house.client() as client:
        seen = client.post("/v1/chat/completions", json=asked(PICTURE, model=model))
        plain = client.post("/v1/chat/completions", json=asked(model=model))

    assert (seen.status_code, seen.json()["error"]["message"]) == (400, BLIND)
    assert PICTURE in house.model.requests[0].body["messages"][-1]["content"]
    assert plain.status_code == 502, "without an image it is no mistake of the caller"


@pytest.mark.parametrize("part", [PICTURE, SOUND])
@pytest.mark.parametrize(
    ("model", "more"),
    [("workflow/summarize", {}), ("workflow/outer", {}), ("agent", {"conversation": "c-1"})],
)
def test_no_part_of_a_message_is_dropped_in_silence(
    empty_house: House, model: str, part: dict[str, Any], more: dict[str, Any]
) -> None:
    """An answer about an image that no model has seen would be a lie."""
    (empty_house.state / "workflows").mkdir()
    for name, inner in (("outer", "summarize"), ("seeing", "agent-turn")):
        text = WRAPPED.replace("INNER", inner).replace("wrapped", name)
        (empty_house.state / "workflows" / f"{name}.yaml").write_text(text, encoding="utf-8")
    with empty_house.running(), empty_house.client() as client:
        answer = client.post("/v1/chat/completions", json=asked(part, model=model) | more)
        words = client.post("/v1/chat/completions", json=asked(model=model) | more)
        passed = client.post("/v1/chat/completions", json=asked(part, model="workflow/seeing"))

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_value", "messages")
    assert part["type"] in error["message"]
    assert words.status_code == passed.status_code == 200
    assert json.dumps(part) in json.dumps(empty_house.model.requests[-1].body)
