"""The history of a conversation: a query over its finished runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.library.runs.conversations import Turn
from pipecatapp.workflow import Context, tool

MOST_TURNS = 50


@dataclass(frozen=True)
class Conversations:
    """`turns(id, limit)` gives the last finished turns of a conversation, the oldest first."""

    turns: Callable[[str, int], Sequence[Turn]]


class PastMessage(BaseModel):
    role: str
    content: str


class History(BaseModel):
    """The end of a conversation as chat messages, the oldest first."""

    messages: list[PastMessage] = Field(description="What user and assistant said in turn.")
    turns: int = Field(description="How many turns the messages hold.")
    left_out: int = Field(description="How many of the turns looked at did not fit the budget.")


@tool("conversation.recall", effect="read", version=1)
async def recall(
    ctx: Context,
    conversation: Annotated[str, Field(description="Its id; empty for none.")] = "",
    budget: Annotated[
        int, Field(description="Characters that the messages may have together.", ge=0)
    ] = 4000,
    turns: Annotated[int, Field(description="Turns to look at.", ge=1, le=MOST_TURNS)] = 20,
) -> History:
    """Give the latest turns of a conversation, as many whole ones as fit the budget."""
    if not conversation:
        return History(messages=[], turns=0, left_out=0)
    past = ctx.service(Conversations).turns(conversation, turns)
    kept = fitting(past, budget)
    messages = [
        PastMessage(role=role, content=text)
        for turn in kept
        for role, text in (("user", turn.user), ("assistant", turn.assistant))
    ]
    return History(messages=messages, turns=len(kept), left_out=len(past) - len(kept))


def fitting(turns: Sequence[Turn], budget: int) -> list[Turn]:
    """The longest end of `turns` whose texts have at most `budget` characters together."""
    kept: list[Turn] = []
    for turn in reversed(turns):
        budget -= len(turn.user) + len(turn.assistant)
        if budget < 0:
            break
        kept.insert(0, turn)
    return kept
