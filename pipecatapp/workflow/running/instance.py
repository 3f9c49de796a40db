"""One call of a tool inside a run: journaled, limited, recorded, and resumed by its effect."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.inbox import Remark
from pipecatapp.workflow.ledger.journal import Begun, Ended, Ending, Journal
from pipecatapp.workflow.ledger.reading import Reader, Spent, StepRow
from pipecatapp.workflow.ledger.values import Statement, canonical
from pipecatapp.workflow.plan import Limits, Plan
from pipecatapp.workflow.running.failing import CUT_SHORT, RunStopped, TryAgain, holds, reason_of
from pipecatapp.workflow.running.known import Found, Known, Place
from pipecatapp.workflow.running.prompting import remark_text
from pipecatapp.workflow.running.waiting import (
    LOOK,
    PAUSE,
    Waiting,
    approve,
    cut_off,
    outcome,
    settled,
)
from pipecatapp.workflow.tool import (
    Context,
    Facts,
    InputRefused,
    Json,
    Question,
    Reply,
    Tool,
    ToolFailed,
)
from pipecatapp.workflow.trees import FACT, Trees
from pipecatapp.workflow.workspace import Worktree


@dataclass
class Instances:
    """All calls of one run, now and before a restart."""

    run: str
    request: str
    tools: Mapping[str, Tool]
    services: Mapping[Any, object]
    journal: Journal
    reader: Reader
    limits: Limits
    past: dict[str, StepRow]
    spent: Spent
    waiting: Waiting
    known: Known
    trees: Trees
    compiled: Callable[[str], Plan]
    """Compiles a workflow that was written during the run; raises `InvalidDocument`."""
    remarks: list[Remark] = field(default_factory=list)
    """Notes to the run so far."""
    struck: dict[str, str] = field(default_factory=dict)
    """The person that removed each planned step from the to-do list, by path."""
    open: dict[str, str] = field(default_factory=dict)
    """Active instances: path to node."""
    may_ask: Callable[[], bool] = lambda: True
    """Whether models are available: in a resumed run, they may still be starting."""
    deadlines: dict[str, asyncio.Timeout] = field(default_factory=dict)
    suspended: bool = False
    """The run continues in another process: failures of calls interrupted here are ignored."""

    def __post_init__(self) -> None:
        self._nodes, self._tokens = self.spent.nodes, self.spent.tokens
        self._cost = self.spent.cost
        self._inside: set[str] = set()
        self._tries = Counter(self.spent.tries)
        self._heard: dict[str, int] = {}
        self._began = {step.path: step.started for step in self.past.values()}
        self._later: dict[str, tuple[Begun, Json]] = {}
        self.open |= {step.path: step.node for step in self.past.values() if step.ended is None}

    async def call(
        self,
        tool: Tool,
        place: Place,
        given: Json,
        finish: Callable[[Json], Json] = lambda output: output,
    ) -> Json:
        """Call a tool as the instance at `place`; its start is on the disk before."""
        if tool.effect not in place.grants:
            raise ToolFailed(f"{tool.name} has the effect `{tool.effect}`, which is not granted.")
        attempt = self._attempt(tool, place)
        if attempt > 1 and not tool.resumable and tool.effect != "human":
            known = await self._outcome(tool, place, given, attempt - 1)
            if known is not None:
                return known
        while True:
            left = place.retries - self._tries[place.path]
            try:
                return await self._try(tool, place, given, finish, attempt, last=left <= 0)
            except TryAgain as again:
                self._tries[place.path] += 1
                self.journal.queued(
                    place.path, place.node, place.wait, _told(again.facts, error=str(again))
                )
                self.count_spent(place.path, again.facts)
                await asyncio.sleep(place.wait)
                attempt += 1

    async def _try(
        self,
        tool: Tool,
        place: Place,
        given: Json,
        finish: Callable[[Json], Json],
        attempt: int,
        *,
        last: bool,
    ) -> Json:
        self.count(place.path, nodes=1)
        facts = Facts()
        sees = self.trees.sees(tool, given, self.tools)
        step = self._step(tool, place, attempt)
        if tool.effect == "human":
            self._later[place.path] = (step, given)
        else:
            self.begin(step, given)
            await self.journal.durable()
        async with (
            _Recording(self, place, facts, last=last) as recording,
            self.trees.seen(tool, place.path, facts) if sees else nullcontext() as worktree,
        ):
            context = self._context(place, step, given, facts, worktree)
            async with asyncio.timeout(place.timeout) as recording.deadline:
                self.deadlines[place.path] = recording.deadline
                recording.output = finish(await tool.check(context, given))
        self.count_spent(place.path, facts)
        return recording.output

    def _step(self, tool: Tool, place: Place, attempt: int = 1) -> Begun:
        key = place.key.text if place.key else None
        why = self.known.why(place.key, place.path) if "/turn[" not in place.path else ""
        name, version = tool.name, tool.version
        return Begun(place.path, place.node, name, version, tool.effect, attempt, key, why)

    def take(self, tool: Tool, place: Place, given: Json, found: Found) -> Json:
        """Record that a cached output replaces a call, and return it."""
        self.count(place.path, nodes=1)
        facts: Json = {"cached": {"run": found.run, "path": found.path}}
        facts |= {FACT: found.fact} if found.fact else {}
        self.journal.taken(self._step(tool, place), given, found.column, facts)
        output: Json = self.reader.value(found.column)
        return output

    def _unheard(self, place: Place, turn: str) -> list[str]:
        """Return the notes since the last turn of this call; a resumed call gets the same notes."""
        path = f"{place.path}/{turn}/notes"
        heard = self._heard.setdefault(place.path, self._heard_before(place))
        if (past := self.past.get(path)) is not None and past.status == "done":
            notes: list[str] = self.reader.value(past.output)["notes"]
        elif f"{place.path}/{turn}/llm" in self.past:
            notes = []
        else:
            notes = [remark_text(remark) for remark in self.remarks[heard:]]
            if notes:
                self.begin(Begun(path, place.node, attempt=0), None)
                self.done(path, {"notes": notes})
        self._heard[place.path] += len(notes)
        return notes

    def _before(self, path: str) -> Json | None:
        past = self.past.get(path)
        given: Json | None = self.reader.value(past.input) if past is not None else None
        return given

    def _heard_before(self, place: Place) -> int:
        """Return the number of notes that existed when a call first started."""
        began = self._began.get(place.path, "")
        return sum(remark.at <= began for remark in self.remarks)

    async def _inner(
        self,
        outer: Place,
        name: str,
        given: Mapping[str, Any],
        *,
        at: str,
        say: Callable[[str], None],
    ) -> Json:
        """`Context.call`: an instance inside another one."""
        place = Place(f"{outer.path}/{at}", outer.node, say, grants=outer.grants, where=outer.where)
        if place.path in self._inside:
            raise RunStopped(place.path, "two calls at the same place")
        self._inside.add(place.path)
        self.ensure_begun(outer.path)
        plain: Json = dict(given)
        past = self.past.get(place.path)
        if past is not None and canonical(self.reader.value(past.input)) != canonical(plain):
            raise RunStopped(place.path, "asks for something else than before the restart")
        if past is not None and past.status == "done":
            found: Json = self.reader.value(past.output)
            return found
        if past is not None and past.status == "failed":
            raise ToolFailed(past.error or "failed before the restart")
        tool = self.tools.get(name)
        if tool is None:
            raise ToolFailed(f"There is no tool {name!r}.")
        self._check_input(tool, place, plain)
        while tool.effect == "llm" and not self.may_ask():  # noqa: ASYNC110 (no event tells it)
            await asyncio.sleep(PAUSE)
        return await self.call(tool, place, plain)

    def _check_input(self, tool: Tool, place: Place, given: Json) -> None:
        """Refuse a wrong input before anything is called, and show it as a failed instance."""
        try:
            tool.accept(given)
        except InputRefused as error:
            self.count(place.path, nodes=1)
            self.begin(Begun(place.path, place.node, tool.name, tool.version, tool.effect), given)
            self.failed(place.path, str(error))
            raise

    def refused(self, tool: Tool, place: Place, given: Json) -> None:
        """Show a call that cannot even be looked up."""
        if place.path not in self.open:
            self.begin(self._step(tool, place, 0), given)

    def has_begun(self, path: str) -> bool:
        """Return whether an instance has started, in this process or before."""
        return path in self._began

    def ensure_begun(self, path: str) -> None:
        """Record the start of a `human` call that does not begin with a question."""
        if (begun := self._later.pop(path, None)) is not None and path not in self.open:
            self.begin(*begun)

    def _context(
        self, place: Place, step: Begun, given: Json, facts: Facts, worktree: Worktree | None
    ) -> Context:
        async def ask(question: Question) -> Reply:
            if step.effect != "human":
                raise ToolFailed(f"{step.tool} has not the effect `human`, so it may not ask.")
            self._later.pop(place.path, None)
            self.open[place.path] = place.node
            facts.more["question"] = question.model_dump()
            reply = await self.waiting.ask(step, given, question)
            facts.more["by"] = reply.by
            return reply

        return Context(
            run=self.run,
            path=place.path,
            attempt=step.attempt,
            request=self.request,
            workspace=worktree.folder if worktree else None,
            worktree=worktree,
            where=place.where,
            project=place.project,
            leaving=lambda: self.suspended,
            tools=self.tools,
            services=self.services,
            speak=place.say,
            inner=partial(self._inner, place),
            approval=partial(approve, self, place),
            questions=ask,
            notes=lambda turn: self._unheard(place, turn),
            before=lambda at: self._before(f"{place.path}/{at}"),
            facts=facts,
        )

    def _attempt(self, tool: Tool, place: Place) -> int:
        """The number of this attempt; a call whose outcome is unknown is not made again."""
        past = self.past.get(place.path)
        if past is None:
            return 1
        if tool.effect == "human":
            return past.attempt
        return past.attempt + 1

    async def _outcome(self, tool: Tool, place: Place, given: Json, attempt: int) -> Json | None:
        """Ask a person for the outcome of an interrupted call; None means that it is to be
        repeated."""
        self.open[place.path] = place.node
        asked = Place(f"{place.path}/outcome[{attempt}]", f"{place.node}/outcome", place.say)
        told = cut_off(tool)
        if not self.waiting.interactive and not self.waiting.knows(asked.path, asked.node):
            raise RunStopped(place.path, f"{told}; it is not called again. {LOOK}")
        past = self.past.get(asked.path)
        if past is not None and past.status == "done":
            said = self.reader.value(past.output)
        else:
            said = await self.call(outcome, asked, {"what": told, "input": given})
        try:
            output = settled(tool, said)
        except ToolFailed as error:
            self.failed(place.path, str(error))
            raise
        if output is not None:
            self.done(place.path, output)
        return output

    def count_spent(self, path: str, facts: Facts) -> None:
        """Add what a call has spent."""
        self.count(path, tokens=facts.prompt_tokens + facts.completion_tokens, cost=facts.cost)

    def count(self, path: str, *, nodes: int = 0, tokens: int = 0, cost: float = 0.0) -> None:
        """Add to what the run has used; raises `RunStopped` beyond a limit."""
        self._nodes, self._tokens = self._nodes + nodes, self._tokens + tokens
        self._cost += cost
        for name, used, limit in (
            ("nodes", self._nodes, self.limits.nodes),
            ("tokens", self._tokens, self.limits.tokens),
            ("cost", self._cost, self.limits.cost),
        ):
            if limit is not None and used > limit:
                raise RunStopped(
                    path, f"limits.{name} is {limit:.12g}, and this would be {used:.12g}"
                )

    def begin(self, step: Begun, given: object) -> None:
        """Note the start of an instance."""
        self.journal.running(step, given)
        self._began.setdefault(step.path, now())
        self.open[step.path] = step.node

    def done(
        self,
        path: str,
        output: object,
        facts: Facts | None = None,
        beside: Sequence[Statement] = (),
    ) -> None:
        """Record success; `beside` is written in the same transaction."""
        self._ended(path, "done", _told(facts, output=output), beside)

    def failed(self, path: str, reason: str, facts: Facts | None = None) -> None:
        """Note its failure."""
        self._ended(path, "failed", _told(facts, error=reason))

    def _ended(
        self, path: str, ending: Ending, what: Ended, beside: Sequence[Statement] = ()
    ) -> None:
        self.journal.ended(path, self.open[path], ending, what, beside)
        del self.open[path]

    def close(self, failed: str | None, reason: str, *, within: str = "") -> None:
        """Note the end of everything open in `within`: what holds the failed path fails with it,
        the rest is cancelled.
        """
        for path in sorted(self.open, key=len, reverse=True):
            if not holds(within, path):
                continue
            if failed is not None and holds(path, failed):
                self.failed(path, reason if path == failed else f"{failed}: {reason}")
            else:
                node = self.open.pop(path)
                self.journal.ended(path, node, "cancelled", Ended(error=CUT_SHORT))


class _Recording:
    """Records the end of a call in every case, and re-raises errors."""

    def __init__(
        self, instances: Instances, place: Place, facts: Facts, *, last: bool = True
    ) -> None:
        self._instances, self._place, self._facts, self._last = instances, place, facts, last
        self.output: Json = {}
        self.deadline: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        path = self._place.path
        if not self._instances.suspended:
            self._instances.ensure_begun(path)
        if error is None:
            keeping = self._instances.known.keeping(self._place.key, path, now())
            self._instances.done(path, self.output, self._facts, keeping)
        elif (
            isinstance(error, TimeoutError)
            and self.deadline is not None
            and self.deadline.expired()
        ):
            reason = f"took longer than {self._place.timeout:g} s"
            if not self._last:
                raise TryAgain(reason, self._facts) from error
            self._instances.failed(path, reason, self._facts)
            raise ToolFailed(reason) from error
        elif self._instances.suspended:
            return
        elif isinstance(error, ToolFailed) and not self._last:
            raise TryAgain(str(error), self._facts) from error
        elif isinstance(error, Exception) and not isinstance(error, LedgerFailed):
            self._instances.failed(path, reason_of(error), self._facts)


def _told(facts: Facts | None, *, output: object = None, error: str | None = None) -> Ended:
    if facts is None:
        return Ended(output=output, error=error)
    return Ended(
        output=output,
        error=error,
        model=facts.model,
        prompt=facts.prompt,
        prompt_tokens=facts.prompt_tokens,
        completion_tokens=facts.completion_tokens,
        cost=facts.cost,
        facts=facts.more,
    )
