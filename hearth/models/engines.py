"""Properties of each engine that can serve a model; the contract test checks them."""

from dataclasses import dataclass

from hearth.settings import Engine


@dataclass(frozen=True)
class EngineFacts:
    """How one engine behaves; `tests/integration/expert` holds each of them against the engine."""

    stops_unary: bool
    """Whether hanging up on an answer in one piece surely frees the engine.

    llama.cpp's server looks for a hang-up only after a second without news from any caller
    (`server_response::recv_with_timeout`), so while others are answered it works to the end.
    Hanging up on a stream frees every engine at its next token.
    """

    at_once: bool
    """Whether it works on several requests at the same time; else they wait for each other."""

    shows_slots: bool
    """Whether `/slots` lists the active requests."""

    json_schema: bool
    """Whether a `response_format` of type `json_schema` constrains the output."""

    stream_usage: bool
    """Whether a stream ends with token counts if `stream_options` requests them."""


LLAMA_CPP = EngineFacts(
    stops_unary=False, at_once=True, shows_slots=True, json_schema=True, stream_usage=True
)
"""The server of llama.cpp, whichever way it was built."""

ENGINES: dict[Engine, EngineFacts] = {
    "xllamacpp": LLAMA_CPP,
    "llama-server": LLAMA_CPP,
    "llama-cpp-python": EngineFacts(
        stops_unary=False, at_once=False, shows_slots=False, json_schema=False, stream_usage=False
    ),
}


def stops_unary(engine: Engine) -> bool:
    """Whether hanging up on an answer in one piece surely frees the engine."""
    return ENGINES[engine].stops_unary


def slots_of(engine: Engine, wanted: int) -> int:
    """Return how many requests the engine processes concurrently if it is configured for
    `wanted`."""
    return wanted if ENGINES[engine].at_once else 1
