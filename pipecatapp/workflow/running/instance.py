"""One call of a tool inside a run: journaled, limited, recorded, and resumed by its effect."""

import asyncio
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import structlog

from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.journal import Begun, Ended, Journal
from pipecatapp.workflow.ledger.reading import Reader, Spent, StepRow
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.plan import Limits
from pipecatapp.workflow.tool import (
    REPEATABLE,
    Context,
    Facts,
    InputRefused,
    Json,
    Tool,
    ToolFailed,
)

_log = structlog.get_logger()


class RunStopped(Exception):
    """The run cannot go on; `path` says where. Unlike `ToolFailed` it is never told to a model."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(reason)


@dataclass(frozen=True)
class Place:
    """Where a call stands, and who hears what it says."""

    path: str
    node: str
    say: Callable[[str], None]
    timeout: float | None = None


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
    open: dict[str, str] = field(default_factory=dict)
    """Instances that have begun and not ended: path to node."""
    suspended: bool = False
    """The run goes on in another process: how calls fail that are cut off here says nothing."""

    def __post_init__(self) -> None:
        self._nodes, self._tokens = self.spent.nodes, self.spent.tokens
        self._inside: set[str] = set()

    async def call(
        self,
        tool: Tool,
        place: Place,
        given: Json,
        finish: Callable[[Json], Json] = lambda output: output,
    ) -> Json:
        """Call a tool as the instance at `place`; its start is on the disk before."""
        attempt = self._attempt(tool, place)
        self.count(place.path, nodes=1)
        facts = Facts()
        self.begin(
            Begun(place.path, place.node, tool.name, tool.version, tool.effect, attempt), given
        )
        await self.journal.durable()
        async with _Recording(self, place, facts) as recording:
            context = self._context(place, attempt, facts)
            async with asyncio.timeout(place.timeout) as recording.deadline:
                recording.output = finish(await tool.check(context, given))
        self.count(place.path, tokens=facts.prompt_tokens + facts.completion_tokens)
        return recording.output

    async def _inner(
        self, outer: Place, name: str, given: Mapping[str, Any], at: str, say: Callable[[str], None]
    ) -> Json:
        """`Context.call`: an instance inside another one."""
        place = Place(f"{outer.path}/{at}", outer.node, say)
        if place.path in self._inside:
            raise RunStopped(place.path, "two calls at the same place")
        self._inside.add(place.path)
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

    def _context(self, place: Place, attempt: int, facts: Facts) -> Context:
        async def inner(
            tool: str, given: Mapping[str, Any], *, at: str, say: Callable[[str], None]
        ) -> Json:
            return await self._inner(place, tool, given, at, say)

        return Context(
            run=self.run,
            path=place.path,
            attempt=attempt,
            request=self.request,
            tools=self.tools,
            services=self.services,
            speak=place.say,
            inner=inner,
            facts=facts,
        )

    def _attempt(self, tool: Tool, place: Place) -> int:
        """The number of this attempt; a call whose outcome is unknown is not made again."""
        past = self.past.get(place.path)
        if past is None:
            return 1
        if tool.effect not in REPEATABLE:
            self.open[place.path] = place.node
            raise RunStopped(
                place.path,
                f"unknown outcome: the run was cut off while {tool.name} ({tool.effect}) "
                "was under way; "
                "it is not called again. Look whether it took effect, then start a new run.",
            )
        return past.attempt + 1

    def count(self, path: str, *, nodes: int = 0, tokens: int = 0) -> None:
        """Add to what the run has used; raises `RunStopped` beyond a limit."""
        self._nodes, self._tokens = self._nodes + nodes, self._tokens + tokens
        for name, used, limit in (
            ("nodes", self._nodes, self.limits.nodes),
            ("tokens", self._tokens, self.limits.tokens),
        ):
            if limit is not None and used > limit:
                raise RunStopped(path, f"limits.{name} is {limit}, and this would be {used}")

    def begin(self, step: Begun, given: object) -> None:
        """Note the start of an instance."""
        self.journal.running(step, given)
        self.open[step.path] = step.node

    def done(self, path: str, output: object, facts: Facts | None = None) -> None:
        """Note its good end."""
        self._ended(path, "done", _told(facts, output=output))

    def failed(self, path: str, reason: str, facts: Facts | None = None) -> None:
        """Note its failure."""
        self._ended(path, "failed", _told(facts, error=reason))

    def _ended(self, path: str, ending: str, what: Ended) -> None:
        self.journal.ended(path, self.open[path], "done" if ending == "done" else "failed", what)
        del self.open[path]

    def close(self, failed: str | None, reason: str) -> None:
        """Note the end of everything still open: what holds the failed path fails with it, the rest
        is cancelled.
        """
        for path in sorted(self.open, key=len, reverse=True):
            if failed is not None and (path == failed or failed.startswith(f"{path}/")):
                self.failed(path, reason if path == failed else f"{failed}: {reason}")
            else:
                node = self.open.pop(path)
                self.journal.ended(
                    path, node, "cancelled", Ended(error="cut off; what it did until then stands")
                )


class _Recording:
    """Writes down how a call ended, whatever way it went, and lets the error go on."""

    def __init__(self, instances: Instances, place: Place, facts: Facts) -> None:
        self._instances, self._place, self._facts = instances, place, facts
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
        if error is None:
            self._instances.done(path, self.output, self._facts)
        elif (
            isinstance(error, TimeoutError)
            and self.deadline is not None
            and self.deadline.expired()
        ):
            reason = f"took longer than {self._place.timeout:g} s"
            self._instances.failed(path, reason, self._facts)
            raise ToolFailed(reason) from error
        elif self._instances.suspended:
            return
        elif isinstance(error, Exception) and not isinstance(error, LedgerFailed):
            self._instances.failed(path, reason_of(error), self._facts)


def reason_of(error: BaseException) -> str:
    """Why something failed, for the person who reads the run."""
    first = next(_leaves(error))
    if isinstance(first, ToolFailed | RunStopped | LedgerFailed):
        return str(first)
    return f"the tool broke: {type(first).__name__}: {first}"


def place_of(error: BaseException, path: str) -> str:
    """Where an error belongs: the inner instance it names, or the one it came out of."""
    first = next(_leaves(error))
    return first.path if isinstance(first, RunStopped) else path


def log_bug(error: BaseException, path: str) -> None:
    """Tell who runs this of a tool with a bug; its message may hold private text, so not that."""
    first = next(_leaves(error))
    if not isinstance(first, ToolFailed | RunStopped | LedgerFailed):
        frames = traceback.format_tb(first.__traceback__)
        _log.error("tool_broke", path=path, error=type(first).__name__, at="".join(frames))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


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
        facts=facts.more,
    )
