"""What workflows do with models, through the whole chain: gateway, agent, gateway, expert."""

from typing import Any

import pytest

from tests.integration.gateway.callers.conftest import House
from tests.integration.gateway.conftest import CHAT, chat

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


@pytest.mark.proves("001-27")
@pytest.mark.parametrize("model", ["big", "workflow/ask-big"])
def test_pictures_between_words_reach_the_model_in_their_order(house: House, model: str) -> None:
    """Asked directly or in a workflow: not a byte of a part is lost on the way."""
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": "First this:"}, PICTURE,
        {"type": "text", "text": "then that:"}, PICTURE | {"detail": "low"}, SOUND,
    ]  # fmt: skip
    talk = [
        {"role": "user", "content": parts[:2]},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": parts},
    ]
    answer = house.gateway.post(CHAT, json={"model": model, "messages": talk})

    assert answer.status_code == 200, answer.text
    [asked] = house.big.requests
    assert asked.body["messages"][-len(talk) :] == talk


@pytest.mark.proves("001-15")
def test_workflow_delegates_a_task_and_has_the_result_judged_by_another_model(
    house: House,
) -> None:
    """The agent is a model like any other: it uses its tools, and what it did goes on."""
    house.small.when("what o'clock").call_tool("time_now", {})
    house.small.when(lambda request: request.messages[-1].role == "tool").say("It is noon.")
    house.big.when("judge: It is noon.").say("That is right.")
    answer = house.gateway.post(CHAT, json=chat("what o'clock is it", "workflow/delegate"))

    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "It is noon. That is right."
    assert (len(house.small.requests), len(house.big.requests)) == (2, 1)
    assert [one.body["model"] for one in house.small.requests] == ["small"] * 2


@pytest.mark.parametrize("model", ["agent", "workflow/ask-big"])
def test_mistakes_of_the_caller_are_400_through_the_whole_chain(house: House, model: str) -> None:
    """Official clients send a 5xx again, and people look for the fault in the wrong place."""
    for expert in (house.small, house.big):
        expert.when("much too long").refuse(
            400, "the request exceeds the available context size", type="exceed_context_size_error"
        )
        expert.when("look at this").refuse(500, "image input is not supported")
    picture = [{"type": "text", "text": "look at this"}, PICTURE]
    answers = [
        house.gateway.post(CHAT, json=chat("much too long", model)),
        house.gateway.post(
            CHAT, json={"model": model, "messages": [{"role": "user", "content": picture}]}
        ),
        house.gateway.post(CHAT, json=chat("hello", model) | {"max_tokens": -5}),
    ]

    assert [answer.status_code for answer in answers] == [400, 400, 400], answers[1].text
    errors = [answer.json()["error"] for answer in answers]
    assert errors[0]["code"] == "context_length_exceeded"
    assert "image input" in errors[1]["message"] or "pictures" in errors[1]["message"]
    assert errors[2]["param"] == "max_tokens"
    assert {error["type"] for error in errors} == {"invalid_request_error"}
