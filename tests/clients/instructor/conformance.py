"""Instructor against one gateway: prints one JSON object, a key per case.

Expected results are asserted by tests/integration/gateway/clients/test_instructor.py, which wrote
the script of the model `small`; `smollm2` is the real model. Settings: OPENAI_BASE_URL,
OPENAI_API_KEY.
"""
# mypy: disable-error-code="import-not-found"

import json
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from typing import Any, Literal

import instructor
import openai
from instructor.core import InstructorRetryException
from pydantic import BaseModel, Field, field_validator

PNG = "iVBORw0KGgo="
EXAMPLE = "Name a river and its length."


class River(BaseModel):
    """A river and where it is."""

    name: str = Field(min_length=3, max_length=12)
    continent: Literal["Africa", "America", "Asia", "Europe"]


class Command(BaseModel):
    """A command to run."""

    cmd: str


class Zone(BaseModel):
    """The time in a zone."""

    zone: str


# The names of the tools that the scripted model calls.
Command.__name__ = "exec_command"
Zone.__name__ = "time_now"


def client(model: str = "small", mode: Any = instructor.Mode.TOOLS, **fields: Any) -> Any:
    return instructor.from_provider(f"openai/{model}", mode=mode, **fields)


def said(text: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def streamed() -> dict[str, Any]:
    """Objects that fill while the arguments of the call arrive."""
    parts = list(client().create_partial(Command, messages=said("with a command")))
    return {"several": len(parts) > 1, "last": parts[-1].cmd}


def parallel() -> list[dict[str, Any]]:
    """Several calls in one answer."""
    calls = client(mode=instructor.Mode.PARALLEL_TOOLS).create(
        response_model=Iterable[Zone], messages=said("what time")
    )
    return [call.model_dump() for call in calls]


def picture() -> str:
    image = instructor.Image(source=PNG, media_type="image/png", data=PNG)
    found = client().create(response_model=Command, messages=said(["answer with a command", image]))
    return str(found.cmd)


def river() -> dict[str, Any]:
    """The real model, held to a schema by its grammar."""
    found: River = client("smollm2", instructor.Mode.JSON_SCHEMA).create(
        response_model=River, messages=said(EXAMPLE), max_tokens=200, temperature=0
    )
    return found.model_dump()


def corrected() -> dict[str, Any]:
    """The first answer is refused by a validator; the library asks again with the reason."""
    seen: list[str] = []

    class Corrected(River):
        @field_validator("name")
        @classmethod
        def check(cls, name: str) -> str:
            seen.append(name)
            if len(seen) == 1:
                raise ValueError("name another river")
            return name

    found: Corrected = client("smollm2", instructor.Mode.JSON_SCHEMA).create(
        response_model=Corrected, messages=said(EXAMPLE), max_tokens=200, temperature=0,
        max_retries=2,
    )  # fmt: skip
    return {"attempts": len(seen), "continent": found.continent}


def failure(text: str, model: str = "small", **fields: Any) -> dict[str, Any]:
    """What a program that uses the library catches, and the official exception behind it."""
    try:
        asked = client(model, **fields)
        asked.create(response_model=Command, messages=said(text), max_retries=0)
    except InstructorRetryException as error:
        cause = error.__cause__
        while cause is not None and not isinstance(cause, openai.APIError):
            cause = cause.__cause__
        return {"kind": type(cause).__name__, "message": str(error)}
    return {"kind": "none"}


def broken() -> str:
    """A stream that breaks must not pass for an answer."""
    try:
        return f"whole: {list(client().create_partial(Command, messages=said('break')))}"
    except InstructorRetryException as error:
        return str(error)


def abandoned() -> bool:
    stream = client().create(response_model=None, messages=said("a long story"), stream=True)
    next(one for one in stream if one.choices[0].delta.content)
    stream.close()
    return True


CASES: dict[str, Callable[[], Any]] = {
    "whole": lambda: client().create(response_model=Command, messages=said("with a command")).cmd,
    "responses": lambda: (
        client(mode=instructor.Mode.RESPONSES_TOOLS)
        .create(response_model=Command, messages=said("with a command"))
        .cmd
    ),
    "streamed": streamed,
    "parallel": parallel,
    "picture": picture,
    "river": river,
    "corrected": corrected,
    "refused": lambda: failure("refuse"),
    "wrong": lambda: failure("wrong"),
    "noTools": lambda: failure("x", "smollm2"),
    "unknownModel": lambda: failure("x", "smal"),
    "wrongKey": lambda: failure("x", api_key="sk-wrong"),
    "broken": broken,
    "abandoned": abandoned,
}


if __name__ == "__main__":
    results: dict[str, Any] = {"version": version("instructor")}
    results |= {name: case() for name, case in CASES.items()}
    json.dump(results, sys.stdout)
