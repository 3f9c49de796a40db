"""LangChain against one gateway: prints one JSON object, a key per case.

What the answers must be is asserted by tests/integration/gateway/clients/test_langchain.py, which
wrote the script of the model `small`; `smollm2` is the real one. Settings: OPENAI_BASE_URL,
OPENAI_API_KEY.
"""
# mypy: disable-error-code="import-not-found"

import json
import sys
from importlib.metadata import version
from typing import Any, Literal

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
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


def chat(model: str = "small", retries: int = 0, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(model=model, max_retries=retries, timeout=60, **fields)


def picture() -> Any:
    content: list[str | dict[str, Any]] = [
        {"type": "text", "text": "good day"},
        {"type": "image_url", "image_url": {"url": PICTURE}},
    ]
    return chat().invoke([HumanMessage(content)]).content


def failure(text: str, **fields: Any) -> dict[str, Any]:
    """What the program that uses LangChain catches."""
    try:
        chat(**fields).invoke(text)
    except openai.APIStatusError as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return {"kinds": kinds, "code": error.code, "message": str(error)}
    return {"kinds": []}


def streamed() -> dict[str, Any]:
    pieces = list(chat("auto", stream_usage=True).stream("good day"))
    usage = next(one.usage_metadata for one in pieces if one.usage_metadata)
    words = [one.content for one in pieces if one.content]
    return {"words": words, "completion": usage["output_tokens"]}


def tools() -> dict[str, Any]:
    """Two calls at once, their results, and what the model makes of them."""
    able = chat().bind_tools([TIME], parallel_tool_calls=True)
    asked = HumanMessage("what time")
    calling = able.invoke([asked])
    results = [ToolMessage("12:00", tool_call_id=call["id"]) for call in calling.tool_calls]
    first, *others = able.stream([asked])
    whole = sum(others, start=first)
    return {
        "calls": [call["args"] for call in calling.tool_calls],
        "streamed": [call["args"] for call in whole.tool_calls],
        "then": able.invoke([asked, calling, *results]).content,
    }


def responses() -> dict[str, Any]:
    """The newer endpoint, which LangChain takes for models that think."""
    newer = chat(use_responses_api=True)
    return {
        "whole": newer.invoke("good day").text,
        "streamed": "".join(piece.text for piece in newer.stream("good day")),
        "calls": [call["args"] for call in newer.bind_tools([TIME]).invoke("what time").tool_calls],
    }


def broken() -> str:
    """A stream that breaks must not pass for an answer."""
    try:
        return f"whole: {[one.content for one in chat().stream('break')]}"
    except openai.APIError as error:
        return type(error).__name__


def abandoned() -> bool:
    stream = chat().stream("a long story")
    next(one for one in stream if one.content)
    stream.close()
    return True


def river() -> Any:
    """The real model, held to a schema by its grammar."""
    held = chat("smollm2", max_tokens=200, temperature=0).with_structured_output(
        River, method="json_schema"
    )
    return held.invoke("Name a river and its length.").model_dump()


def vectors() -> list[int]:
    embeddings = OpenAIEmbeddings(model="small", check_embedding_ctx_length=False)
    return [len(one) for one in embeddings.embed_documents(["a", "b"])]


CASES = {
    "whole": lambda: chat().invoke("good day").content,
    "streamed": streamed,
    "tools": tools,
    "picture": picture,
    "river": river,
    "embeddings": vectors,
    "completion": lambda: OpenAI(model="small", max_retries=0).invoke("good day"),
    "responses": responses,
    "retried": lambda: chat(retries=2).invoke("later").content,
    "refused": lambda: failure("refuse"),
    "unknownModel": lambda: failure("x", model="smal"),
    "wrongKey": lambda: failure("x", api_key="sk-wrong"),
    "broken": broken,
    "abandoned": abandoned,
}


if __name__ == "__main__":
    results = {"version": version("langchain-openai")}
    results |= {name: case() for name, case in CASES.items()}
    json.dump(results, sys.stdout)
