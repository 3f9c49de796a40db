"""The tokens of an answer with their probabilities, and the choice among several answers."""

import math
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from hearth.openai_api.client import ModelClient
from hearth.openai_api.errors import ModelError
from pipecatapp.tools.model.llm import choice_of, failure_of, request_of
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

MOST: Final = 4096
"""Tokens of one answer: each is recorded with its alternatives, about 300 bytes."""


class Alternative(BaseModel):
    """A token that the model could have written at one position."""

    token: str
    probability: float = Field(description="From 0 to 1.")


class WrittenToken(Alternative):
    """A token of the answer."""

    alternatives: list[Alternative] = Field(
        description="The most probable tokens at its position, often with the token itself."
    )


class TokenAnswer(BaseModel):
    """An answer, token by token."""

    text: str = Field(description="The answer after the prefix.")
    prefix: str = Field(description="The beginning of the answer that was given.")
    tokens: list[WrittenToken] = Field(description="Each with its probability.")
    mean_logprob: float = Field(
        description="Mean natural logarithm of the probabilities: 0 is certain, lower is less so."
    )
    perplexity: float = Field(
        description="The number of equally probable tokens that the model chose among on average."
    )
    finish_reason: str = Field(description="Why it ended: stop, length …")
    model: str = Field(description="The model that answered.")


@tool("llm.tokens", effect="llm", version=1)
async def tokens(
    ctx: Context,
    messages: Annotated[
        list[dict[str, Any]],
        Field(description="The conversation, as OpenAI chat messages.", min_length=1),
    ],
    model: Annotated[
        str, BY_AUTHOR, Field(description="A model that the gateway offers.")
    ] = "auto",
    prefix: Annotated[
        str, Field(description="The beginning of the answer, which the model continues.")
    ] = "",
    temperature: Annotated[float, Field(description="How freely it samples.", ge=0, le=2)] = 0.8,
    seed: Annotated[
        int | None, Field(description="The same seed gives the same answer on one machine.")
    ] = None,
    max_tokens: Annotated[
        int, BY_AUTHOR, Field(description="Longest answer, in tokens.", ge=1, le=MOST)
    ] = 200,
    top: Annotated[int, Field(description="Alternatives of each token.", ge=0, le=20)] = 5,
) -> TokenAnswer:
    """Ask a model, and return the probability of each token of its answer with the alternatives.

    The model has to be one that returns `logprobs`, such as those of llama.cpp.
    """
    talk = [*messages, {"role": "assistant", "content": prefix}] if prefix else messages
    request = request_of(talk, model, [], temperature, max_tokens)
    more: dict[str, Any] = {"logprobs": True, "top_logprobs": top}
    more |= {} if seed is None else {"seed": seed}
    ctx.record(prompt=talk, model=model)
    try:
        choice, answered = await choice_of(
            ctx, ctx.service(ModelClient), request.model_copy(update=more), ctx.say
        )
    except ModelError as error:
        raise failure_of(model, error) from error
    written = (choice.get("logprobs") or {}).get("content") or []
    text = choice.get("message", {}).get("content") or ""
    if text and not written:
        raise ToolFailed(f"Model {answered!r} does not return the probabilities of its tokens.")
    mean = sum(one["logprob"] for one in written) / len(written) if written else 0.0
    return TokenAnswer(
        text=text,
        prefix=prefix,
        tokens=_tokens(written),
        mean_logprob=round(mean, 4),
        perplexity=round(math.exp(-mean), 3),
        finish_reason=choice["finish_reason"] or "stop",
        model=answered,
    )


def _tokens(written: list[dict[str, Any]]) -> list[WrittenToken]:
    """Return the tokens so that their texts are the answer: a character whose bytes are spread
    over several tokens belongs to the last of them."""
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    return [
        WrittenToken(
            token=decoder.decode(bytes(one["bytes"])) if one.get("bytes") else one["token"],
            probability=_probability(one["logprob"]),
            alternatives=_alternatives(one.get("top_logprobs") or ()),
        )
        for one in written
    ]


def _alternatives(others: Iterable[dict[str, Any]]) -> list[Alternative]:
    """Return the alternatives that are text: a part of a character cannot be continued."""
    return [
        Alternative(token=one["token"], probability=_probability(one["logprob"]))
        for one in others
        if one["token"] and "\ufffd" not in one["token"]
    ]


def _probability(logprob: float) -> float:
    return round(math.exp(min(0.0, logprob)), 6)


class RankedAnswer(TokenAnswer):
    """An answer among others."""

    rank: int = Field(description="1 is the most certain answer.")
    kept: bool = Field(description="False for one that is culled.")


class Ranking(BaseModel):
    """Answers, the most certain first."""

    answers: list[RankedAnswer] = Field(description="With rank, and whether it is kept.")


@tool("llm.cull", effect="pure", version=1)
async def cull(
    ctx: Context,
    answers: Annotated[
        list[TokenAnswer], Field(description="Answers of `llm.tokens`.", min_length=1)
    ],
    margin: Annotated[
        float,
        Field(
            description="How far the mean logarithm of a kept answer may be below the best.", ge=0
        ),
    ] = 0.5,
) -> Ranking:
    """Rank answers by the model's own certainty, and cull those that are far below the best."""
    ordered = sorted(answers, key=lambda one: -one.mean_logprob)
    least = ordered[0].mean_logprob - margin
    return Ranking(
        answers=[
            RankedAnswer(**one.model_dump(), rank=rank, kept=one.mean_logprob >= least)
            for rank, one in enumerate(ordered, 1)
        ]
    )
