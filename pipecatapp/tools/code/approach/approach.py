"""The tool that chooses how a model is asked for a change."""

import asyncio
from random import Random
from typing import Annotated, Final, Literal, cast

from pydantic import BaseModel, Field

from hearth.models.catalogue import Catalogue, count
from hearth.models.errors import EvaluationsInvalid
from hearth.models.evaluation import evaluations
from hearth.service.state import StateDir
from pipecatapp.records import edits
from pipecatapp.records.edits import FORMATS, Counts, EditFormat
from pipecatapp.workflow import BY_AUTHOR, Context, Ledger, ModelFacts, ToolFailed, tool

LARGE: Final = 14_000_000_000
"""Models with fewer parameters begin with whole functions, others with SEARCH/REPLACE blocks."""
TRIED: Final = 5
"""Answers in the first format before another one is tried."""
MOST_PATCHES: Final = 4
"""Patches at the same time: each needs a copy of the project and a run of its tests."""


class Approach(BaseModel):
    """How the model is asked."""

    model: str = Field(description="The model that is asked.")
    served: str = Field(description="The model that answers for it, by which answers are counted.")
    format: EditFormat = Field(description="How the model writes a change.")
    tries: list[int] = Field(
        description="0, 1, … for each patch to ask for; one per free slot of the model."
    )
    asked: int = Field(description="Answers of this model in this format until now.")
    green: int = Field(description="How many of them made the tests pass.")


@tool("code.approach", effect="read", version=1)
async def approach(
    ctx: Context,
    model: Annotated[str, BY_AUTHOR, Field(description="The model that will be asked.")] = "auto",
    format: Annotated[
        Literal["auto", "blocks", "function"],
        BY_AUTHOR,
        Field(description="The edit format; `auto` chooses by measured success."),
    ] = "auto",
    patches: Annotated[
        int,
        BY_AUTHOR,
        Field(description="Patches at the same time; 0 asks for one per free slot.", ge=0, le=16),
    ] = 0,
) -> Approach:
    """Choose the edit format for a model by its success until now, and the number of patches.

    The format is chosen by Thompson sampling: each has the probability of being the better one.
    The first answers of a model without measurements are in the format that suits its size.
    """
    facts = cast("ModelFacts", ctx.services.get(ModelFacts, ModelFacts()))
    served = facts.served(model)
    counted = edits.counts(ctx.service(Ledger), served)
    for name, measured in await asyncio.to_thread(_measured, ctx, served):
        counted[name] = counted[name].plus(measured)
    chosen = sampled(counted, first_format(served), Random()) if format == "auto" else format
    number = patches or min(MOST_PATCHES, facts.free_slots(model))
    return Approach(
        model=model,
        served=served,
        format=chosen,
        tries=list(range(number)),
        asked=counted[chosen].asked,
        green=counted[chosen].green,
    )


def _measured(ctx: Context, model: str) -> list[tuple[EditFormat, Counts]]:
    """Return the repairs of `hearth models eval`; none if the model was not evaluated."""
    state = ctx.services.get(StateDir)
    try:
        found = evaluations(state).get(model) if isinstance(state, StateDir) else None
    except EvaluationsInvalid as error:
        raise ToolFailed(str(error)) from error
    scores = found.scores if found else {}
    return [
        (name, Counts(scores[name].tried, scores[name].done, scores[name].done))
        for name in FORMATS
        if name in scores
    ]


def first_format(model: str) -> EditFormat:
    """Return the format to begin with: whole functions for a model of the catalogue below 14
    billion parameters, SEARCH/REPLACE blocks for larger and unknown ones.
    """
    known = Catalogue.load().models.get(model)
    return "function" if known and count(known.parameters) < LARGE else "blocks"


def sampled(counted: dict[EditFormat, Counts], first: EditFormat, random: Random) -> EditFormat:
    """Draw a success rate for each format from its Beta distribution, and return the best.

    Thompson sampling with a uniform prior; `first` is used until it was tried `TRIED` times.
    """
    if sum(one.asked for one in counted.values()) < TRIED:
        return first
    return max(
        FORMATS,
        key=lambda format: random.betavariate(
            counted[format].green + 1, counted[format].asked - counted[format].green + 1
        ),
    )
