"""LiteLLM as a client of one gateway: prints one JSON object, a key per case.

What the answers must be is asserted by tests/integration/gateway/clients/test_litellm.py, which
wrote the script of the model `small`; `smollm2` is the real one. Settings: OPENAI_BASE_URL,
OPENAI_API_KEY, and LITELLM_LOCAL_MODEL_COST_MAP so that it asks nobody else.
"""
# mypy: disable-error-code="import-not-found"

import json
import os
import sys
from importlib.metadata import version
from typing import Any, Literal

import litellm
import openai
from pydantic import BaseModel, Field

PICTURE = "data:image/png;base64,iVBORw0KGgo="
TIME = {
    "type": "function",
    "function": {
        "name": "time_now",
        "description": "The time in a zone.",
        "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}},
    },
}


class River(BaseModel):
    """A river and where it is."""

    name: str = Field(min_length=3, max_length=12)
    continent: Literal["Africa", "America", "Asia", "Europe"]
    length_km: int = Field(ge=1, le=9999)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ask(text: str, model: str = "small", **fields: Any) -> Any:
    fields = {"messages": [said(text)], "num_retries": 0, "timeout": 60, **fields}
    return litellm.completion(model=f"openai/{model}", **fields)


def streamed() -> dict[str, Any]:
    pieces = list(ask("good day", "auto", stream=True, stream_options={"include_usage": True}))
    words = [p.choices[0].delta.content for p in pieces if p.choices and p.choices[0].delta.content]
    usage = [p.usage.completion_tokens for p in pieces if getattr(p, "usage", None)]
    return {"words": words, "completion": usage[-1]}


def tools() -> dict[str, Any]:
    """Two calls at once, their results, and what the model makes of them."""
    fields: dict[str, Any] = {
        "tools": [TIME],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }
    message = ask("what time", **fields).choices[0].message
    pieces = list(ask("what time", stream=True, **fields))
    streamed = litellm.stream_chunk_builder(pieces).choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "12:00"} for call in message.tool_calls
    ]
    then = ask("", messages=[said("what time"), message, *results], **fields)
    return {
        "calls": [json.loads(call.function.arguments) for call in message.tool_calls],
        "streamed": [json.loads(call.function.arguments) for call in streamed.tool_calls],
        "then": then.choices[0].message.content,
    }


def picture() -> Any:
    parts = [
        {"type": "text", "text": "good day"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    return ask("", messages=[{"role": "user", "content": parts}]).choices[0].message.content


def failure(text: str, model: str = "small", **fields: Any) -> dict[str, Any]:
    """What the program that uses LiteLLM catches; its classes are those of the official client."""
    try:
        pieces = ask(text, model, **fields)
        if fields.get("stream"):
            list(pieces)
    except openai.APIError as error:
        return {"kind": type(error).__name__, "message": str(error)}
    return {"kind": "none"}


def abandoned() -> bool:
    stream = ask("a long story", stream=True)
    next(one for one in stream if one.choices[0].delta.content)
    stream.completion_stream.close()
    return True


def river() -> dict[str, Any]:
    """The real model, held to a schema by its grammar."""
    answer = ask(
        "Name a river and its length.", "smollm2",
        response_format=River, max_tokens=200, temperature=0,
    )  # fmt: skip
    return River.model_validate_json(answer.choices[0].message.content).model_dump()


def vectors() -> list[int]:
    found = litellm.embedding(model="openai/small", input=["a", "b"], encoding_format="float")
    return [len(one["embedding"]) for one in found.data]


def completion() -> str:
    found = litellm.text_completion(model="text-completion-openai/small", prompt="good day")
    return str(found.choices[0].text)


def responses() -> dict[str, Any]:
    """The newer endpoint, whole and as events."""
    whole = litellm.responses(model="openai/small", input="good day")
    events = list(litellm.responses(model="openai/small", input="good day", stream=True))
    deltas = [one.delta for one in events if one.type == "response.output_text.delta"]
    return {"whole": whole.output[-1].content[0].text, "streamed": "".join(deltas)}


def models() -> list[str]:
    """Its address has to be given here; else it asks OpenAI."""
    return sorted(
        litellm.get_valid_models(
            check_provider_endpoint=True, custom_llm_provider="openai",
            api_base=os.environ["OPENAI_BASE_URL"],
        )
    )  # fmt: skip


CASES = {
    "whole": lambda: ask("good day").choices[0].message.content,
    "streamed": streamed,
    "tools": tools,
    "picture": picture,
    "river": river,
    "embeddings": vectors,
    "completion": completion,
    "responses": responses,
    "models": models,
    "retried": lambda: ask("later", num_retries=2).choices[0].message.content,
    "refused": lambda: failure("refuse"),
    "unknownModel": lambda: failure("x", "smal"),
    "wrongKey": lambda: failure("x", api_key="sk-wrong"),
    "broken": lambda: failure("break", stream=True),
    "abandoned": abandoned,
}


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    results = {"version": version("litellm")}
    results |= {name: case() for name, case in CASES.items()}
    json.dump(results, sys.stdout)
