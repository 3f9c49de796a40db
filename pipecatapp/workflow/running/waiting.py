"""Questions to people: durable waits, and the answers that end them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field, ValidationError

from pipecatapp.workflow.declaring import tool
from pipecatapp.workflow.document.shapes import ShapeError, shape
from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.inbox import Answered
from pipecatapp.workflow.ledger.journal import Begun, Journal
from pipecatapp.workflow.ledger.reading import Reader, StepRow
from pipecatapp.workflow.running.known import Place
from pipecatapp.workflow.tool import (
    Approve,
    Context,
    InputRefused,
    Json,
    Question,
    Reply,
    Tool,
    ToolFailed,
    complaints,
)


class NotAsked(LookupError):
    """The run does not wait for an answer there; the message names where it does."""


class WrongAnswer(ValueError):
    """The answer is not valid for the question; the message states what is."""


@dataclass
class _Open:
    question: Question
    reply: "asyncio.Future[Reply]"


class Waiting:
    """The open questions of one run.

    `given` are answers from the start, by path or by id of the node; `came` are later ones, by
    path. Without `interactive` no question waits.
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
        self._given, self._came, self.interactive = given, dict(came), interactive
        self._open: dict[str, _Open] = {}
        self.pause: Callable[[], None] = lambda: None
        self.go_on: Callable[[], None] = lambda: None
        """Called when the first question is asked, and when the last one is answered."""

    async def ask(self, step: Begun, given: Json, question: Question) -> Reply:
        """Return the answer when there is one; raises `ToolFailed` if there will be none."""
        if step.path in self._open:
            raise ToolFailed("A call can ask one question at a time.")
        past = self._past.get(step.path)
        if past is None or past.status != "waiting":
            self._journal.waiting(step, given, question.model_dump())
        if (preset := self._preset(step.path, step.node)) is not None:
            return Reply(value=_fitting(question, preset[0]), by="start", at=now())
        if (came := self._came.pop(step.path, None)) is not None:
            return Reply(value=came.value, by=came.by, at=came.at)
        if not self.interactive:
            if "otherwise" in question.model_fields_set:
                return Reply(value=question.otherwise, at=now())
            raise ToolFailed(f"Nobody can answer {question.text!r}. Use --answer {step.node}=….")
        await self._journal.durable()
        if (came := self._came.pop(step.path, None)) is not None:
            return Reply(value=came.value, by=came.by, at=came.at)
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

    def knows(self, path: str, node: str) -> bool:
        """Return whether the answer was given at the start."""
        return self._preset(path, node) is not None

    def _preset(self, path: str, node: str) -> tuple[Any] | None:
        names = (path, node, node.rpartition("/")[2])
        return next(((self._given[name],) for name in names if name in self._given), None)

    def questions(self) -> dict[str, Question]:
        """Return the open questions by path."""
        return {path: one.question for path, one in self._open.items() if not one.reply.done()}

    def answer(self, path: str, reply: Reply) -> None:
        """End a wait, or store the answer for a later wait; it is already on the disk."""
        found = self._open.get(path)
        if found is None:
            self._came[path] = Answered(reply.value, reply.by, reply.at)
        elif not found.reply.done():
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
        raise ToolFailed(f"The answer does not have the requested type: {error}.") from error


class More(BaseModel):
    """How many visits more a person allows."""

    more: int = Field(ge=0, le=1000)


@tool("loop.more", effect="human", version=1)
async def more(ctx: Context, reason: str) -> More:
    """Ask a person whether a loop that has reached its `max` may continue."""
    question = Question(text=f"{reason}. How many times more? 0 ends it.", returns="integer")
    reply = await ctx.ask(question)
    return More(more=max(0, min(1000, reply.value)))


class Outcome(BaseModel):
    """A person's decision on an interrupted call: repeat it, let it fail, or set its output."""

    then: Literal["again", "fail", "output"]
    output: Any = None


@tool("call.outcome", effect="human", version=1)
async def outcome(ctx: Context, what: str, input: Json) -> Outcome:
    """Ask a person what became of a call that was cut off and is not made twice."""
    text = (
        f"{what}. Look whether it took effect. Answer `again` to call it again, `fail` to let it "
        "fail, or, if it took effect, its output as JSON."
    )
    reply = await ctx.ask(Question(text=text, returns="any", show=input))
    said = _json(reply.value)
    if said in ("again", "fail"):
        return Outcome(then=said)
    return Outcome(then="output", output=said)


PAUSE = 0.25
"""Seconds between two checks whether a model is ready."""

LOOK = "Look whether it took effect, then start a new run."


def cut_off(tool: Tool) -> str:
    """Return the description of an interrupted call."""
    return f"unknown outcome: the run was cut off while {tool.name} ({tool.effect}) was under way"


def settled(tool: Tool, said: Mapping[str, Any]) -> Json | None:
    """Return the output of an interrupted call as a person states it; None to repeat the call.

    Raises `ToolFailed` if the call failed, or if the output does not match the tool's schema.
    """
    if said["then"] == "again":
        return None
    if said["then"] == "fail":
        raise ToolFailed(f"{cut_off(tool)}, and it did not take effect.")
    try:
        return tool.gives.model_validate(said["output"]).model_dump(mode="json")
    except ValidationError as error:
        raise ToolFailed(f"{tool.name} has no such output: {complaints(error)}") from error


def _json(value: Any) -> Any:
    """Return the object in a text if it is JSON of an object; else the value itself."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            found = json.loads(value)
            return found if isinstance(found, dict) else value
    return value


# Text that a model has read must not act on the world by itself. An approval is an ordinary
# question at `…/turn[1]/approve[0]` beside the call: shown, answered and resumed like the others.

YES, NO = "yes", "no"
LATER = {
    "first": "`yes` also allows it in the rest of this conversation.",
    "always": "This is asked before each call, and not answered by voice alone.",
}


class Approved(BaseModel):
    """A person's decision on calls of a tool."""

    tool: str
    approved: bool


@tool("call.approve", effect="human", version=1)
async def approval(ctx: Context, tool: str, input: Json, when: Approve) -> Approved:
    """Ask a person whether a model may make a call."""
    question = Question(
        text=f"A model wants to call {tool}. May it? {LATER[when]}",
        choices=[YES, NO],
        show={"tool": tool, "input": input},
        by_voice=when != "always",
    )
    reply = await ctx.ask(question)
    return Approved(tool=tool, approved=reply.value == YES)


class Instances(Protocol):
    """The part of the calls of a run that `approve` uses."""

    run: str
    tools: Mapping[str, Tool]
    past: dict[str, StepRow]
    reader: Reader
    deadlines: dict[str, asyncio.Timeout]

    async def call(self, tool: Tool, place: Place, given: Json) -> Json: ...


async def approve(
    calls: Instances, outer: Place, tool: str, given: Mapping[str, Any], *, at: str
) -> None:
    """Wait for a person's approval of the call of `tool` at `<outer>/<at>`, if it needs one.

    Raises `ToolFailed` if it is declined or nobody can be asked. A call that had started before a
    restart was approved then; no approval is requested for a call that is not possible.
    """
    wanted = calls.tools.get(tool)
    if wanted is None or f"{outer.path}/{at}" in calls.past or not _possible(wanted, outer, given):
        return
    when = wanted.approval(given)
    beside, _, last = at.rpartition("/")
    name = f"{beside}/{last.replace('call', 'approve', 1)}"
    place = Place(f"{outer.path}/{name}", f"{outer.node}/approve", outer.say)
    past = calls.past.get(place.path)
    if past is not None and past.status == "done":
        answer: Json = calls.reader.value(past.output)
    elif when == "never" or (when == "first" and _approved_before(calls, tool)):
        return
    else:
        async with _paused(calls.deadlines.get(outer.path)):
            asked = {"tool": tool, "input": dict(given), "when": when}
            answer = await calls.call(approval, place, asked)
    if not answer["approved"]:
        raise ToolFailed(f"A person did not approve the call of {tool}. Do not try it again.")


def _possible(tool: Tool, outer: Place, given: Mapping[str, Any]) -> bool:
    try:
        tool.accept(given)
    except InputRefused:
        return False
    return tool.effect in outer.grants


def _approved_before(calls: Instances, tool: str) -> bool:
    """Whether a person has approved the tool in this run or in its conversation."""
    sql = """SELECT step.output FROM run AS this JOIN run AS other
        ON other.id = this.id OR other.conversation = this.conversation
        JOIN step ON step.run = other.id
        WHERE this.id = ? AND step.tool = ? AND step.status = 'done'"""
    rows = calls.reader.rows(sql, (calls.run, approval.name))
    answers = [calls.reader.value(row["output"]) for row in rows]
    return any(answer["tool"] == tool and answer["approved"] for answer in answers)


@asynccontextmanager
async def _paused(deadline: asyncio.Timeout | None) -> AsyncIterator[None]:
    """Stop the clock of the agent's `timeout` while a person decides."""
    when = deadline.when() if deadline is not None else None
    if deadline is None or when is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left = when - loop.time()
    deadline.reschedule(None)
    try:
        yield
    finally:
        if not deadline.expired():
            deadline.reschedule(loop.time() + max(0.0, left))
