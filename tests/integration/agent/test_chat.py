"""Workflows as models of OpenAI's API, over real sockets."""

import json
from typing import Any

from openai import OpenAI

from tests.integration.agent.conftest import House


def events(text: str) -> list[Any]:
    """The data of each event of a stream."""
    found = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in found]


def test_agent_answers_the_official_client_streaming_and_not(house: House) -> None:
    """Whatever speaks to OpenAI speaks to the house."""
    house.model.when("hello").say("Good day to you.", pause=0.02)
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
        chunks = list(stream)

    assert names[0] == "agent"
    assert whole.choices[0].message.content == "Good day to you."
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    said = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
    assert "".join(said) == "Good day to you."
    assert len(said) > 1
    assert chunks[-1].usage == whole.usage
