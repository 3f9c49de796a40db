"""What is known of each engine that can serve a model, as facts that the contract test checks."""

from dataclasses import dataclass

from hearth.settings import Engine


@dataclass(frozen=True)
class EngineFacts:
    """How one engine behaves; see `tests/integration/expert/test_engine_contract.py`."""

    stops_unary: bool
    """Whether it stops working on an answer in one piece when the caller hangs up."""

    at_once: bool
    """Whether it works on several requests at the same time."""

    shows_slots: bool
    """Whether `/slots` tells which request it works on."""

    json_schema: bool
    """Whether `response_format` of type `json_schema` constrains the output."""


ENGINES: dict[Engine, EngineFacts] = {
    "xllamacpp": EngineFacts(stops_unary=False, at_once=True, shows_slots=True, json_schema=True),
    "llama-server": EngineFacts(stops_unary=True, at_once=True, shows_slots=True, json_schema=True),
    "llama-cpp-python": EngineFacts(
        stops_unary=False, at_once=False, shows_slots=False, json_schema=True
    ),
}


def stops_unary(engine: Engine) -> bool:
    """Whether hanging up on an answer in one piece frees the engine, or it works to the end."""
    return ENGINES[engine].stops_unary
