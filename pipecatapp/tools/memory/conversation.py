"""The history of a conversation: a query over its runs of every status."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from pydantic import BaseModel, Field

from pipecatapp.records.attachments import has_image, text_of
from pipecatapp.records.conversations import Turn, may_read
from pipecatapp.tools.memory.tokens import estimated, shortened
from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.workflow import BY_AUTHOR, Context, Ledger, ModelFacts, ModelNeeds, ToolFailed, tool
from pipecatapp.workflow.planning import LONGEST_REQUEST

MOST_TURNS = 500
LONGEST_REASON = 200
"""Characters of the reason why a turn failed."""
UNKNOWN_CONTEXT = 4096
"""Tokens of the context of a model that does not report its size."""
PER_MESSAGE = 4
"""Tokens that mark the beginning and the end of a message."""
IMAGE = 1000
"""Tokens of an image: models make 250 to 1,600 of one."""
LEAST = 64
"""Tokens: less of a turn would not help."""


@dataclass(frozen=True)
class Conversations:
    """`turns(id, limit, run)` returns the turns of a conversation before a run, oldest first."""

    turns: Callable[[str, int, str], Sequence[Turn]]


class PastMessage(BaseModel):
    """`content` is a text, or content parts where the message has images."""

    role: str
    content: str | list[dict[str, Any]]

    @property
    def size(self) -> int:
        """An estimate of its tokens."""
        if isinstance(self.content, str):
            return estimated(self.content)
        images = [part for part in self.content if part.get("type") == "image_url"]
        return estimated(text_of(self.content)) + len(images) * IMAGE


class History(BaseModel):
    """The end of a conversation as chat messages, the oldest first."""

    messages: list[PastMessage] = Field(description="Messages of user and assistant, in order.")
    turns: int = Field(description="Number of turns in the messages.")
    left_out: int = Field(description="Number of turns that did not fit.")
    shortened: bool = Field(default=False, description="Whether the first turn is truncated.")
    since: str = Field(
        "", description="The run of the first whole turn; this run if there is none."
    )


@tool("conversation.recall", effect="read", version=3)
async def recall(
    ctx: Context,
    conversation: Annotated[str, Field(description="Its id; empty for none.")] = "",
    model: Annotated[
        str, BY_AUTHOR, Field(description="The model that will read the messages.")
    ] = "",
    budget: Annotated[
        int | None,
        Field(
            description="Maximum tokens of the messages; default: the model's context without the"
            " request, the instructions and the answer.",
            ge=0,
        ),
    ] = None,
    turns: Annotated[int, Field(description="Turns to look at.", ge=1, le=MOST_TURNS)] = 100,
) -> History:
    """Give the latest turns of a conversation that fit the model's context. The oldest of them is
    shortened where it does not fit whole."""
    if not conversation:
        return History(messages=[], turns=0, left_out=0, since=ctx.run)
    owner = owner_of_run(ctx)
    if owner and not may_read(ctx.service(Ledger).read, conversation, owner):
        raise ToolFailed(f"There is no conversation {conversation!r}.")
    facts = cast("ModelFacts", ctx.services.get(ModelFacts, ModelFacts()))
    room = room_in(facts.context(model), ctx.request) if budget is None else budget
    past = ctx.service(Conversations).turns(conversation, turns + 1, ctx.run)
    sees = facts.fitting(model, ModelNeeds(able=frozenset({"vision"})))[0]
    kept = fitting(past[-turns:], room, images=bool(sees))
    return History(
        messages=[message for one in kept for message in one.messages],
        turns=len(kept),
        left_out=len(past) - len(kept),
        shortened=any(not one.whole for one in kept),
        since=next((one.run for one in kept if one.whole), ctx.run),
    )


@dataclass(frozen=True)
class Recalled:
    """A turn in the form for the model."""

    run: str
    messages: Sequence[PastMessage]
    whole: bool = True


def room_in(context: int | None, request: str) -> int:
    """The tokens of a model's context that may be history: half of it without the request, which
    models read twice. The other half is for instructions, tools and the answer. A long request
    leaves less, but never nothing.
    """
    context = UNKNOWN_CONTEXT if context is None else context
    asked = estimated(request) + estimated(request[:LONGEST_REQUEST])
    return max(0, context // 2 - asked, (context - asked) // 4)


def fitting(turns: Sequence[Turn], room: int, *, images: bool = False) -> list[Recalled]:
    """Return the latest turns with at most `room` tokens together. One that does not fit completely
    is shortened, and earlier ones are omitted. Without `images` only their names are included.
    """
    kept: list[Recalled] = []
    for turn in reversed(turns):
        messages = messages_of(turn, images=images)
        sizes = [message.size for message in messages]
        sizes[-1] = estimated(str(messages[-1].content), turn.tokens)
        size = sum(sizes) + PER_MESSAGE * len(messages)
        if size > room:
            if room >= LEAST:
                short = _short(messages_of(turn), room)
                kept.insert(0, Recalled(turn.run, short, whole=False))
            break
        kept.insert(0, Recalled(turn.run, messages))
        room -= size
    return kept


def _short(messages: Sequence[PastMessage], room: int) -> list[PastMessage]:
    """Messages that have at most `room` tokens together: the longest ones lose their middle."""
    left = room - PER_MESSAGE * len(messages)
    sizes = sorted(message.size for message in messages)
    share = left
    for number, size in enumerate(sizes):
        share = left // (len(sizes) - number)
        if size > share:
            break
        left -= size
    return [
        PastMessage(role=message.role, content=shortened(str(message.content), share))
        for message in messages
    ]


def messages_of(turn: Turn, *, images: bool = False) -> list[PastMessage]:
    """Convert a turn for the model: the request, questions and answers in between, the answer.

    An incomplete answer ends with a remark in square brackets that states this. Files are part of
    the request; of images only the names, or with `images` the images too.
    """
    request = turn.parts if images and has_image(turn.parts) else text_of(turn.parts)
    said: list[tuple[str, str | list[dict[str, Any]]]] = [("user", request or turn.user)]
    for one in turn.questions:
        if one.answer is not None:
            said += [("assistant", one.question["text"]), ("user", _plain(one.answer))]
    said.append(("assistant", "\n\n".join(filter(None, (turn.assistant, remark(turn))))))
    return [PastMessage(role=role, content=text) for role, text in said]


def remark(turn: Turn) -> str:
    """Why the answer of a turn is not complete; empty if it is."""
    if turn.status == "cancelled":
        return "[The user stopped this answer here.]"
    if turn.status == "failed":
        return f"[This answer failed: {(turn.error or 'the reason is unknown')[:LONGEST_REASON]}]"
    if turn.status == "waiting":
        asked = "; ".join(one.question["text"] for one in turn.questions if one.open)
        return f"[The user has not answered this question yet: {asked}]"
    return "" if turn.status == "done" else "[This is not answered yet.]"


def _plain(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
