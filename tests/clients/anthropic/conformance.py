"""Anthropic's client as a client of one gateway: prints one JSON object, a key per case.

What the answers must be is asserted by tests/integration/gateway/clients/test_anthropic.py, which
wrote the script of the model `small`; `smollm2` is the real one. Settings: ANTHROPIC_BASE_URL,
ANTHROPIC_API_KEY.
"""
# mypy: disable-error-code="import-not-found"

import json
import os
import sys
from importlib.metadata import version
from typing import Any

import anthropic

TIME = {
    "name": "time_now",
    "description": "The time in a zone.",
    "input_schema": {"type": "object", "properties": {"zone": {"type": "string"}}},
}
RIVER = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 3, "maxLength": 12}},
    "required": ["name"],
    "additionalProperties": False,
}

client = anthropic.Anthropic(max_retries=0, timeout=60)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def fields(text: str, model: str = "small", **more: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 200, "messages": [said(text)], **more}


def whole() -> dict[str, Any]:
    message = client.messages.create(**fields("good day"))
    return {
        "text": message.content[0].text,
        "stop": message.stop_reason,
        "output": message.usage.output_tokens,
        "id": bool(message._request_id),
    }


def streamed() -> dict[str, Any]:
    """The client's own helper puts the events together."""
    with client.messages.stream(**fields("good day", "auto")) as stream:
        words = list(stream.text_stream)
        final = stream.get_final_message()
    return {
        "words": words,
        "text": final.content[0].text,
        "stop": final.stop_reason,
        "output": final.usage.output_tokens,
    }


def tools() -> dict[str, Any]:
    """Two calls at once, their results, and what the model makes of them."""
    offered: dict[str, Any] = {"tools": [TIME], "tool_choice": {"type": "auto"}}
    message = client.messages.create(**fields("what time", **offered))
    with client.messages.stream(**fields("what time", **offered)) as stream:
        streamed = stream.get_final_message()
    calls = [block for block in message.content if block.type == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "12"}]}
        for call in calls
    ]
    turns = [
        said("what time"),
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": results},
    ]
    then = client.messages.create(**fields("", **offered) | {"messages": turns})
    return {
        "stop": message.stop_reason,
        "calls": [call.input for call in calls],
        "streamed": [block.input for block in streamed.content if block.type == "tool_use"],
        "then": then.content[0].text,
    }


def picture() -> str:
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    parts = [{"type": "image", "source": source}, {"type": "text", "text": "good day"}]
    turns = [{"role": "user", "content": parts}]
    message = client.messages.create(**fields("") | {"messages": turns})
    return str(message.content[0].text)


def river() -> dict[str, Any]:
    """The real model, held to a schema by its grammar."""
    form = {"format": {"type": "json_schema", "schema": RIVER}}
    message = client.messages.create(
        **fields("Name a river.", "smollm2"), output_config=form, extra_body={"temperature": 0}
    )
    found: dict[str, Any] = json.loads(message.content[0].text)
    return found


def real() -> dict[str, Any]:
    """The real model, as a stream that is longer than its limit."""
    asked = fields("Count from 1 to 100.", "smollm2") | {"max_tokens": 8}
    with client.messages.stream(**asked, extra_body={"temperature": 0}) as stream:
        final = stream.get_final_message()
    return {"stop": final.stop_reason, "output": final.usage.output_tokens}


def failure(text: str, model: str = "small", *, stream: bool = False, **key: Any) -> dict[str, Any]:
    """What the program that uses the client catches."""
    try:
        caller = client.with_options(**key) if key else client
        pieces = caller.messages.create(**fields(text, model, stream=stream))
        if stream:
            list(pieces)
    except anthropic.APIError as error:
        return {"kind": type(error).__name__, "message": str(error)}
    return {"kind": "none"}


def bearer() -> str:
    """A token in the other header."""
    token = os.environ["ANTHROPIC_API_KEY"]
    with anthropic.Anthropic(auth_token=token, api_key=None, max_retries=0) as other:
        other.api_key = None
        return str(other.messages.create(**fields("good day")).content[0].text)


def abandoned() -> bool:
    with client.messages.create(**fields("a long story", stream=True)) as stream:
        next(event for event in stream if event.type == "content_block_delta")
    return True


CASES = {
    "whole": whole,
    "streamed": streamed,
    "tools": tools,
    "picture": picture,
    "river": river,
    "real": real,
    "counted": lambda: (
        client.messages.count_tokens(model="small", messages=[said("good day")]).input_tokens
    ),
    "bearer": bearer,
    "retried": lambda: (
        client.with_options(max_retries=2).messages.create(**fields("later")).content[0].text
    ),
    "refused": lambda: failure("refuse"),
    "wrong": lambda: failure("wrong"),
    "unknownModel": lambda: failure("x", "smal"),
    "wrongKey": lambda: failure("x", api_key="sk-wrong"),
    "broken": lambda: failure("break", stream=True),
    "abandoned": abandoned,
}


if __name__ == "__main__":
    results: dict[str, Any] = {"version": version("anthropic")}
    results |= {name: case() for name, case in CASES.items()}
    json.dump(results, sys.stdout)
