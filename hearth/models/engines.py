"""Properties of each engine that can serve a model; the contract test checks them."""

from dataclasses import dataclass

from hearth.settings import Engine


@dataclass(frozen=True)
class EngineFacts:
    """The behaviour of one engine; `tests/integration/expert` compares it with the real engine."""

    stops_unary: bool
    """Whether a disconnect always stops a request without `stream`.

    llama.cpp's server checks for disconnects only after a second without results for any client
    (`server_response::recv_with_timeout`), so with other active requests it finishes the answer.
    A disconnect from a stream stops every engine at its next token.
    """

    at_once: bool
    """Whether it processes several requests concurrently; otherwise they are queued."""

    shows_slots: bool
    """Whether `/slots` lists the active requests."""

    json_schema: bool
    """Whether a `response_format` of type `json_schema` constrains the output."""

    stream_usage: bool
    """Whether a stream ends with token counts if `stream_options` requests them."""


LLAMA_CPP = EngineFacts(
    stops_unary=False, at_once=True, shows_slots=True, json_schema=True, stream_usage=True
)
"""The server of llama.cpp, in any build."""

ENGINES: dict[Engine, EngineFacts] = {
    "xllamacpp": LLAMA_CPP,
    "llama-server": LLAMA_CPP,
    "llama-cpp-python": EngineFacts(
        stops_unary=False, at_once=False, shows_slots=False, json_schema=False, stream_usage=False
    ),
}


def stops_unary(engine: Engine) -> bool:
    """Return whether a disconnect always stops a request without `stream`."""
    return ENGINES[engine].stops_unary


def slots_of(engine: Engine, wanted: int) -> int:
    """Return how many of `wanted` requests the engine processes concurrently."""
    return wanted if ENGINES[engine].at_once else 1
