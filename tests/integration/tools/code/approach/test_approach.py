"""How a model is asked for a change: in the format that works, one patch per free slot."""

from collections import Counter
from random import Random
from typing import Any

from pipecatapp.records import edits
from pipecatapp.records.edits import Counts
from pipecatapp.tools import TOOLS
from pipecatapp.tools.cluster.directory import ExpertHealth
from pipecatapp.tools.code.approach.approach import TRIED, first_format, sampled
from pipecatapp.tools.model.facts import ExpertFacts
from pipecatapp.workflow import Context, Ledger, ModelFacts
from tests.integration.tools.code.approach.conftest import MODEL

APPROACH = TOOLS["code.approach"]


def share(blocks: Counts, function: Counts) -> float:
    """How often blocks are chosen for a model that begins with functions."""
    random = Random(2021)
    chosen = Counter(
        sampled({"blocks": blocks, "function": function}, "function", random) for _ in range(1000)
    )
    return chosen["blocks"] / 1000


def test_format_that_works_is_chosen_and_the_other_one_is_tried_again() -> None:
    """Nine of ten against one of ten leaves hardly a doubt; nothing known of one leaves much."""
    assert share(Counts(10, 10, 9), Counts(10, 10, 1)) > 0.99
    assert share(Counts(10, 10, 1), Counts(10, 10, 9)) < 0.01
    assert 0.3 < share(Counts(), Counts(10, 10, 5)) < 0.7


def test_first_answers_are_in_the_format_for_the_size_of_the_model() -> None:
    """A model of which too little is known must not be asked at random."""
    assert share(Counts(), Counts(TRIED - 1, 0, 0)) == 0
    assert share(Counts(), Counts(TRIED, 0, 0)) > 0.5
    assert first_format("smollm2") == "function"
    assert first_format("qwen3-30b-a3b") == "blocks"
    assert first_format("unknown") == "blocks"


def facts(*experts: dict[str, Any]) -> ExpertFacts:
    known = ExpertFacts(None)  # type: ignore[arg-type]  # the gateway is not asked
    known._experts = [ExpertHealth.model_validate(one | {"healthy": True}) for one in experts]
    return known


def test_free_slots_of_all_healthy_servers_count() -> None:
    """Each patch takes a slot; a server that others use, or that is down, has none to give."""
    places = [
        {"healthy": True, "slots": 4, "in_flight": 1, "busy_elsewhere": 1},
        {"healthy": True, "slots": 1},
        {"healthy": False, "slots": 8},
    ]
    small = {"name": "small", "model": "smollm2", "instances": places}
    big = {"name": "big", "model": "qwen"}

    assert facts(small).free_slots("auto") == facts(small, big).free_slots("smollm2") == 3
    assert facts(small, big).free_slots("big") == 1
    assert facts(small).served("auto") == "smollm2"
    assert facts(small, big).served("auto") == "auto"
    assert facts(small, big).knows("qwen")
    assert not facts(small, big).knows("coder")
    assert facts().knows("coder")


async def test_counts_of_the_model_that_answers_decide(call: Context) -> None:
    """What was counted for `smollm2` also holds where it is asked as `auto`."""
    ledger = call.service(Ledger)
    for number in range(40):
        await edits.count(
            ledger, MODEL, "blocks", ("r", f"attempt[{number}]"), applied=True, green=True
        )
        await edits.count(
            ledger, MODEL, "function", ("r", f"attempt[{number}]/f"), applied=False, green=False
        )
    known = facts({"name": "fast", "model": MODEL, "instances": [{"healthy": True, "slots": 9}]})
    call.services = {**call.services, ModelFacts: known}

    chosen = await APPROACH.check(call, {"model": "auto"})
    fixed = await APPROACH.check(call, {"model": "other", "format": "function", "patches": 2})

    assert chosen == {
        "model": "auto", "served": MODEL, "format": "blocks", "tries": [0, 1, 2, 3],
        "asked": 40, "green": 40,
    }  # fmt: skip
    assert fixed == {
        "model": "other", "served": "other", "format": "function", "tries": [0, 1],
        "asked": 0, "green": 0,
    }  # fmt: skip
