"""Questions to people: durable waits, and the answers that end them."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from pipecatapp.workflow.document.shapes import ShapeError, shape
from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.inbox import Answered
from pipecatapp.workflow.ledger.journal import Begun, Journal
from pipecatapp.workflow.ledger.reading import StepRow
from pipecatapp.workflow.tool import Context, Json, Question, Reply, ToolFailed, tool


class NotAsked(LookupError):
    """The run does not wait for an answer there; the message names where it does."""


class WrongAnswer(ValueError):
    """The answer does not fit the question; the message says what would."""


@dataclass
class _Open:
    question: Question
    reply: "asyncio.Future[Reply]"


class Waiting:
    """The open questions of one run.

    `given` are answers that came with the start, by path or by id of the node; `came` those that
    came later, by path. Without `interactive` nobody is waited for.
    """

    def __init__(
        self,
        journal: Journal,
        past: Mapping[str, StepRow],
        *,
        given: Mapping[str, Any],
        came: Mapping[str, Answered],
        interactive: bool,
    ) -> None:
        self._journal, self._past = journal, past
        self._given, self._came, self._interactive = given, dict(came), interactive
        self._open: dict[str, _Open] = {}
        self.pause: Callable[[], None] = lambda: None
        self.go_on: Callable[[], None] = lambda: None
        """Heard when the first question is asked, and when the last one is answered."""

    async def ask(self, step: Begun, given: Json, question: Question) -> Reply:
        """The answer, once there is one; raises `ToolFailed` when none will come."""
        if step.path in self._open:
            raise ToolFailed("A call can ask one question at a time.")
        past = self._past.get(step.path)
        if past is None or past.status != "waiting":
            self._journal.waiting(step, given, question.model_dump())
        if (preset := self._preset(step)) is not None:
            return Reply(value=_fitting(question, preset[0]), by="start", at=now())
        if (came := self._came.pop(step.path, None)) is not None:
            return Reply(value=came.value, by=came.by, at=came.at)
        if not self._interactive:
            raise ToolFailed(
                f"Nobody is here to answer {question.text!r}. Give --answer {step.node}=…."
            )
        await self._journal.durable()
        return await self._wait(step.path, question, past.started if past else now())

    async def _wait(self, path: str, question: Question, since: str) -> Reply:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if not self._open:
            self.pause()
        self._open[path] = _Open(question, reply)
        try:
            async with asyncio.timeout(_left(question, since)):
                return await reply
        except TimeoutError:
            if "otherwise" in question.model_fields_set:
                return Reply(value=question.otherwise, at=now())
            raise ToolFailed(f"Nobody answered within {question.after:g} s.") from None
        finally:
            del self._open[path]
            if not self._open:
                self.go_on()

    def _preset(self, step: Begun) -> tuple[Any] | None:
        names = (step.path, step.node, step.node.rpartition("/")[2])
        return next(((self._given[name],) for name in names if name in self._given), None)

    def questions(self) -> dict[str, Question]:
        """What is asked now, by path."""
        return {path: one.question for path, one in self._open.items()}

    def check(self, path: str, value: Any) -> Any:
        """The value as the question wants it; raises `NotAsked` and `WrongAnswer`."""
        found = self._open.get(path)
        if found is None or found.reply.done():
            asked = ", ".join(self._open) or "nothing"
            raise NotAsked(f"No question is open at {path!r}. Open: {asked}.")
        return checked(found.question, value)

    def answer(self, path: str, reply: Reply) -> None:
        """End a wait; the answer is on the disk already."""
        if (found := self._open.get(path)) is not None and not found.reply.done():
            found.reply.set_result(reply)


def checked(question: Question, value: Any) -> Any:
    """The value as the question wants it; raises `WrongAnswer`."""
    try:
        return _fitting(question, value)
    except ToolFailed as error:
        raise WrongAnswer(str(error)) from error


def _left(question: Question, since: str) -> float | None:
    if question.after is None:
        return None
    waited = (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()
    return max(0.0, question.after - max(0.0, waited))


def _fitting(question: Question, value: Any) -> Any:
    """The answer as the question wants it; a text may be JSON of it. Raises `ToolFailed`."""
    if question.choices:
        if value not in question.choices:
            raise ToolFailed(f"The answer is one of {', '.join(question.choices)}, not {value!r}.")
        return value
    wanted = shape("text" if question.returns is None else question.returns)
    try:
        return wanted.check(value)
    except ShapeError as error:
        with suppress(ShapeError, ValueError, RecursionError):
            if isinstance(value, str):
                return wanted.check(json.loads(value))
        raise ToolFailed(f"The answer has another form: {error}.") from error


class More(BaseModel):
    """How many visits more a person allows."""

    more: int = Field(ge=0, le=1000)


@tool("loop.more", effect="human", version=1)
async def more(ctx: Context, reason: str) -> More:
    """Ask a person whether a loop that has reached its `max` may go on."""
    question = Question(text=f"{reason}. How many times more? 0 ends it.", returns="integer")
    reply = await ctx.ask(question)
    return More(more=max(0, min(1000, reply.value)))
