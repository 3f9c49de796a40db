"""smolagents against one gateway: prints one JSON object, a key per case.

Expected results are asserted by tests/integration/gateway/clients/test_smolagents.py, which wrote
the script of the model `small`; `smollm2` is the real model. Settings: OPENAI_BASE_URL,
OPENAI_API_KEY.
"""
# mypy: disable-error-code="import-not-found,untyped-decorator"

import json
import sys
from contextlib import redirect_stdout
from importlib.metadata import version
from typing import Any, Literal

import openai
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field
from smolagents import (
    AgentGenerationError,
    ChatMessage,
    CodeAgent,
    LogLevel,
    OpenAIModel,
    ToolCallingAgent,
    tool,
)

zones: list[str] = []


class River(BaseModel):
    """A river and where it is."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=3, max_length=12)
    continent: Literal["Africa", "America", "Asia", "Europe"]


@tool
def time_now(zone: str) -> str:
    """The time in a zone.

    Args:
        zone: The zone, such as UTC.
    """
    zones.append(zone)
    return "12:00"


def model(name: str = "small", *, retry: bool = False, **fields: Any) -> OpenAIModel:
    return OpenAIModel(model_id=name, retry=retry, client_kwargs={"max_retries": 0}, **fields)


def said(text: str) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=[{"type": "text", "text": text}])]


def calling(**fields: Any) -> ToolCallingAgent:
    return ToolCallingAgent(
        [time_now], model(), max_steps=3, verbosity_level=LogLevel.OFF, **fields
    )


def coding() -> CodeAgent:
    return CodeAgent([], model(), max_steps=2, verbosity_level=LogLevel.OFF)


def streamed() -> dict[str, Any]:
    parts = list(model("auto").generate_stream(said("good day")))
    words = [part.content for part in parts if part.content]
    return {"words": words, "output": parts[-1].token_usage.output_tokens}


def tools() -> dict[str, Any]:
    """Two calls at once, then the call that ends the run; whole and as a stream."""
    whole = calling().run("what time")
    streamed = calling(stream_outputs=True).run("what time")
    return {"zones": sorted(zones), "then": whole, "streamed": streamed}


def picture() -> str:
    seen = Image.new("RGB", (1, 1))
    return str(calling().run("what time", images=[seen]))


def river() -> dict[str, Any]:
    """The real model, held to a schema by its grammar."""
    schema = {"name": "river", "schema": River.model_json_schema(), "strict": True}
    answer = model("smollm2", temperature=0, max_tokens=200).generate(
        said("Name a river."), response_format={"type": "json_schema", "json_schema": schema}
    )
    return River.model_validate_json(answer.content).model_dump()


def failure(text: str, name: str = "small", **fields: Any) -> dict[str, Any]:
    """What a program that uses the library catches, and the official exception behind it."""
    try:
        ToolCallingAgent([], model(name, **fields), verbosity_level=LogLevel.OFF).run(text)
    except AgentGenerationError as error:
        return {"kind": type(error.__cause__).__name__, "message": str(error)}
    return {"kind": "none"}


def broken() -> str:
    """A stream that breaks must not pass for an answer."""
    try:
        return f"whole: {list(model().generate_stream(said('break')))}"
    except openai.APIError as error:
        return error.message


def abandoned() -> bool:
    stream = model().generate_stream(said("a long story"))
    next(part for part in stream if part.content)
    stream.close()
    return True


CASES = {
    "whole": lambda: model().generate(said("good day")).content,
    "streamed": streamed,
    "tools": tools,
    "code": lambda: coding().run("Compute 6 * 7 with code."),
    "picture": picture,
    "river": river,
    "refused": lambda: failure("refuse"),
    "wrong": lambda: failure("wrong"),
    "unknownModel": lambda: failure("x", "smal"),
    "wrongKey": lambda: failure("x", api_key="sk-wrong"),
    "broken": broken,
    "abandoned": abandoned,
}


if __name__ == "__main__":
    results: dict[str, Any] = {"version": version("smolagents")}
    with redirect_stdout(sys.stderr):  # Agents that stream print what they do.
        results |= {name: case() for name, case in CASES.items()}
    json.dump(results, sys.stdout)
