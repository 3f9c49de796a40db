"""Ollama's client as a client of one gateway: prints one JSON object, a key per case.

What the answers must be is asserted by tests/integration/gateway/clients/test_ollama.py, which
wrote the script of the model `small`; `smollm2` is the real one. Settings: OLLAMA_HOST,
OLLAMA_API_KEY.
"""
# mypy: disable-error-code="import-not-found"

import json
import sys
from importlib.metadata import version
from typing import Any

import ollama

PNG = "iVBORw0KGgo="
RIVER = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 3, "maxLength": 12}},
    "required": ["name"],
    "additionalProperties": False,
}


def time_now(zone: str) -> str:
    """The time in a zone.

    Args:
      zone: The name of the zone.
    """
    return f"12 in {zone}"


def said(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text, **more}]


def whole() -> dict[str, Any]:
    answer = ollama.chat("small", said("good day"))
    return {
        "text": answer.message.content,
        "done": answer.done_reason,
        "output": answer.eval_count,
        "timed": answer.total_duration > 0,
    }


def streamed() -> dict[str, Any]:
    pieces = list(ollama.chat("auto", said("good day"), stream=True))
    words = [piece.message.content for piece in pieces]
    return {"words": words, "done": pieces[-1].done_reason, "output": pieces[-1].eval_count}


def tools() -> dict[str, Any]:
    """Two calls at once, their results, and what the model makes of them."""
    turns: list[Any] = said("what time")
    answer = ollama.chat("small", turns, tools=[time_now])
    pieces = list(ollama.chat("small", turns, tools=[time_now], stream=True))
    streamed = [call for piece in pieces for call in piece.message.tool_calls or ()]
    calls = answer.message.tool_calls
    results = [
        {
            "role": "tool",
            "tool_name": call.function.name,
            "content": time_now(**call.function.arguments),
        }
        for call in calls
    ]
    then = ollama.chat("small", [*turns, answer.message, *results], tools=[time_now])
    return {
        "calls": [call.function.arguments for call in calls],
        "streamed": [call.function.arguments for call in streamed],
        "then": then.message.content,
    }


def picture() -> list[str | None]:
    turn = ollama.chat("small", said("good day", images=[PNG]))
    prompt = ollama.generate("small", "good day", images=[PNG])
    return [turn.message.content, prompt.response]


def generated() -> dict[str, Any]:
    pieces = list(ollama.generate("small", "good day", stream=True))
    return {
        "whole": ollama.generate("small", "good day", system="Be polite.").response,
        "streamed": "".join(piece.response for piece in pieces),
        "raw": ollama.generate("small", "good day", raw=True).response,
        "loaded": ollama.generate("small").done_reason,
        "unloaded": ollama.generate("small", keep_alive=0).done_reason,
    }


def vectors() -> dict[str, Any]:
    many = ollama.embed("small", ["good day", "good night"])
    return {
        "many": len(many.embeddings),
        "same": ollama.embed("small", "good day").embeddings == many.embeddings[:1],
        "old": len(ollama.embeddings("small", "good day").embedding) == len(many.embeddings[0]),
    }


def models() -> dict[str, Any]:
    return {
        "tags": [model.model for model in ollama.list().models],
        "loaded": [model.model for model in ollama.ps().models],
        "can": ollama.show("small").capabilities,
    }


def river() -> dict[str, Any]:
    """The real model, held to a schema by its grammar."""
    turns, still = said("Name a river."), {"temperature": 0}
    answer = ollama.chat("smollm2", turns, format=RIVER, options=still)
    found: dict[str, Any] = json.loads(answer.message.content)
    return found


def real() -> dict[str, Any]:
    """The real model, as a stream, and a text that goes on."""
    limit = {"num_predict": 3}
    pieces = list(ollama.chat("smollm2", said("Say hello."), stream=True, options=limit))
    raw = ollama.generate("smollm2", "One, two,", raw=True, options=limit)
    return {
        "done": [pieces[-1].done_reason, raw.done_reason],
        "output": [pieces[-1].eval_count, raw.eval_count],
    }


def failure(text: str, model: str = "small", *, stream: bool = False, **key: Any) -> dict[str, Any]:
    """What the program that uses the client catches."""
    try:
        pieces = ollama.Client(**key).chat(model, said(text), stream=stream)
        if stream:
            list(pieces)
    except ollama.ResponseError as error:
        return {"status": error.status_code, "message": error.error}
    return {"status": 200}


def pulled() -> dict[str, Any]:
    try:
        ollama.pull("llama3.2")
    except ollama.ResponseError as error:
        return {"status": error.status_code, "message": error.error}
    return {"status": 200}


def abandoned() -> bool:
    """One answer is left in its middle."""
    pieces = ollama.chat("small", said("a long story"), stream=True)
    next(pieces)
    pieces.close()
    return True


CASES = {
    "whole": whole,
    "streamed": streamed,
    "tools": tools,
    "picture": picture,
    "generated": generated,
    "vectors": vectors,
    "models": models,
    "river": river,
    "real": real,
    "refused": lambda: failure("refuse"),
    "wrong": lambda: failure("wrong"),
    "unknownModel": lambda: failure("x", "smal"),
    "wrongKey": lambda: failure("x", headers={"Authorization": "Bearer sk-wrong"}),
    "broken": lambda: failure("break", stream=True),
    "pulled": pulled,
    "abandoned": abandoned,
}


if __name__ == "__main__":
    results: dict[str, Any] = {"version": version("ollama")}
    results |= {name: case() for name, case in CASES.items()}
    json.dump(results, sys.stdout)
