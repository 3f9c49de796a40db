"""Requests to a gateway that runs, with its own models: `make test-live`.

The answers of the models are not compared, because any model may run there.
"""

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]


def test_models_are_listed_with_the_agent(live: openai.OpenAI, experts: list[str]) -> None:
    """A client offers this list to its user."""
    names = [model.id for model in live.models.list()]

    assert {"agent", "auto"} <= set(names)
    assert experts, f"none of {names} is a model that answers itself"


@pytest.mark.parametrize("model", ["auto", "agent"])
def test_question_gets_an_answer_with_its_usage(live: openai.OpenAI, model: str) -> None:
    """A real model answers within its limit of tokens."""
    answer = live.chat.completions.create(model=model, messages=QUESTION, max_tokens=16)

    assert (answer.choices[0].message.content or "").strip()
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 0
    assert answer.usage.completion_tokens > 0


def test_stream_has_the_answer_in_parts_and_its_usage(live: openai.OpenAI) -> None:
    """The words come one after the other, and then the numbers."""
    parts, ends, usage = [], [], None
    with live.chat.completions.create(
        model="auto", messages=QUESTION, max_tokens=16, stream=True,
        stream_options={"include_usage": True},
    ) as stream:  # fmt: skip
        for chunk in stream:
            parts += [choice.delta.content for choice in chunk.choices if choice.delta.content]
            ends += [choice.finish_reason for choice in chunk.choices if choice.finish_reason]
            usage = chunk.usage or usage

    assert "".join(parts).strip()
    assert len(ends) == 1
    assert usage is not None
    assert usage.completion_tokens > 0


def test_response_is_kept_for_the_next_turn(live: openai.OpenAI) -> None:
    """The Responses API, whose second turn names the first one."""
    first = live.responses.create(model="auto", input="Say hello.", max_output_tokens=16)
    second = live.responses.create(
        model="auto", input="And again.", previous_response_id=first.id, max_output_tokens=16
    )

    assert first.output_text.strip()
    assert second.previous_response_id == first.id
    assert second.usage is not None
    assert first.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens


def test_unknown_model_and_wrong_key_are_refused(live: openai.OpenAI) -> None:
    """With the statuses that clients know."""
    with pytest.raises(openai.NotFoundError):
        live.chat.completions.create(model="no-such-model", messages=QUESTION)
    stranger = live.with_options(api_key="sk-hearth-wrong")
    with pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model="auto", messages=QUESTION)
