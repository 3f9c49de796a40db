"""One run being executed, from its beginning to the entry of its end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import structlog

from pipecatapp.workflow.channel import Channel
from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.journal import Ending
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.running.failing import log_bug
from pipecatapp.workflow.running.frames import GRACE
from pipecatapp.workflow.running.instance import Instances
from pipecatapp.workflow.running.walk import Walk
from pipecatapp.workflow.tool import Json
from pipecatapp.workflow.views import RunResult

_log = structlog.get_logger()


@dataclass(frozen=True)
class _Ending:
    status: Literal["done", "failed", "cancelled", "suspended"]
    outputs: Json = field(default_factory=dict)
    path: str | None = None
    reason: str = ""


class Execution:
    """Executes a plan from its first node, or from the end of its ledger entries."""

    def __init__(self, plan: Plan, inputs: Json, instances: Instances, channel: Channel) -> None:
        self._inputs, self.instances = inputs, instances
        self.run, self.channel = instances.run, channel
        self._journal = instances.journal
        self._walk = Walk(plan, instances, channel, ended=self._done, lost=self._fail)
        self._wall = _Wall(instances.limits.wall, instances.spent.seconds, self._too_long)
        instances.waiting.pause, instances.waiting.go_on = self._wall.stop, self._wall.run
        self._ending: asyncio.Future[_Ending] = asyncio.get_running_loop().create_future()
        self._journal.broken.add_done_callback(
            lambda broken: self._fail(None, str(broken.result()))
        )

    async def carry_out(self, begun: Awaitable[object]) -> RunResult:
        """The whole run, once its beginning is on the disk; raises `LedgerFailed` if it is not."""
        await begun
        work = asyncio.create_task(self._work())
        await asyncio.wait({work})
        if (error := work.exception()) is None:
            return work.result()
        log_bug(error, "")
        await self._stop_calls()
        return await self._unwritten(f"the engine broke: {type(error).__name__}: {error}")

    async def _work(self) -> RunResult:
        self._wall.run()
        self._walk.begin(self._inputs)
        ending = await self._ending
        await self._stop_calls()
        if ending.status == "suspended":
            return RunResult(run=self.run, status="cancelled", error="left to be resumed")
        try:
            return await self._written(ending, ending.status)
        except LedgerFailed as error:
            return await self._unwritten(str(error))

    async def _stop_calls(self) -> None:
        self._wall.stop()
        for call in self._walk.tasks:
            call.cancel()
        if self._walk.tasks:
            await asyncio.wait(self._walk.tasks, timeout=GRACE)

    async def _written(self, ending: _Ending, status: Ending) -> RunResult:
        """The result, once it is on the disk with everything that led to it."""
        reason = ending.reason if ending.path is None else f"{ending.path}: {ending.reason}"
        self.instances.close(ending.path, ending.reason)
        outputs, text = (ending.outputs, "") if status == "done" else (None, self.channel.text)
        self._journal.end(status, outputs=outputs, error=reason or None, text=text)
        await self._journal.durable()
        return RunResult(run=self.run, status=status, outputs=ending.outputs, error=reason or None)

    async def _unwritten(self, reason: str) -> RunResult:
        """The run fails because its ledger did; if not even that can be written, it will resume."""
        try:
            self._journal.end("failed", error=reason, broken=True)
            await self._journal.durable()
        except LedgerFailed as error:
            _log.error("run_end_not_written", run=self.run, error=str(error))
        return RunResult(run=self.run, status="failed", error=reason)

    def cancel(self) -> None:
        """End the run as cancelled."""
        self._end(_Ending("cancelled"))

    def suspend(self) -> None:
        """Stop here; the run resumes with the next engine."""
        self.instances.suspended = True
        self._end(_Ending("suspended"))

    def _end(self, ending: _Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)
            self._walk.end()

    def _fail(self, path: str | None, reason: str) -> None:
        self._end(_Ending("failed", path=path, reason=reason))

    def _done(self, outputs: Json) -> None:
        self._end(_Ending("done", outputs))

    def _too_long(self) -> None:
        wall = self.instances.limits.wall or 0
        self._fail(None, f"limits.wall is {wall:g} s, and they are over")


class _Wall:
    """The execution time of a run, which is suspended while a question is open."""

    def __init__(self, limit: float | None, spent: float, over: Callable[[], None]) -> None:
        self._left = None if limit is None else limit - spent
        self._over = over
        self._timer: asyncio.TimerHandle | None = None

    def run(self) -> None:
        """The time runs."""
        if self._left is not None and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, self._left), self._over)

    def stop(self) -> None:
        """Suspend the time."""
        if self._timer is not None and self._left is not None:
            self._left = self._timer.when() - asyncio.get_running_loop().time()
            self._timer.cancel()
            self._timer = None
