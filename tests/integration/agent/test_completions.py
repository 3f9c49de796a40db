"""Workflows as models of OpenAI's older API, with the official client."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.integration.agent.conftest import House


@pytest.fixture
def client(house: House) -> Iterator[openai.OpenAI]:
    url = f"{house.address}/v1"
    with openai.OpenAI(base_url=url, api_key=house.key, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("model", ["agent", "workflow/agent-turn"])
@pytest.mark.parametrize("prompt", ["hello", ["hello"]])
def test_agent_goes_on_with_a_text(
    house: House, client: openai.OpenAI, model: str, prompt: Any
) -> None:
    """Programs that know no chat got a bare 404."""
    house.model.when("hello").say("Good day to you.")

    whole = client.completions.create(model=model, prompt=prompt, max_tokens=5)
    stream = client.completions.create(
        model=model, prompt=prompt, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)

    assert (whole.object, whole.choices[0].text) == ("text_completion", "Good day to you.")
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    assert "".join(c.choices[0].text for c in chunks if c.choices) == "Good day to you."
    assert {chunk.object for chunk in chunks} == {"text_completion"}
    assert chunks[-1].usage == whole.usage
    assert house.model.requests[0].body["max_tokens"] == 5
    assert house.model.requests[0].body["messages"][-1] == {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 1}, "logprobs"),
        ({"n": 2}, "n"),
    ],
)
def test_what_the_text_of_a_run_cannot_be_is_refused_by_name(
    house: House, client: openai.OpenAI, fields: dict[str, Any], param: str
) -> None:
    """Left out in silence, it would give an answer that is not what was asked for."""
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": "agent", "prompt": "hello"} | fields)

    assert refused.value.param is not None
    assert refused.value.param.startswith(param)
    assert house.model.requests == []
