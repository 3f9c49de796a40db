"""State of the application that routes use; built in `pipecatapp.app`."""

import asyncio
import os
import signal
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import structlog
from fastapi import Depends, Request

from pipecatapp.application.code_memory import CodeMemory
from pipecatapp.application.conversations import ConversationService
from pipecatapp.application.engine import Workflow
from pipecatapp.application.fixes import FixService
from pipecatapp.application.home import HomeService
from pipecatapp.application.knowledge import Knowledge
from pipecatapp.application.notes import NoteService
from pipecatapp.application.runs import Beside, Document, RunService
from pipecatapp.application.schedules.starting import Starter
from pipecatapp.application.schedules.store import Schedules
from pipecatapp.application.status import Directory
from pipecatapp.application.triggers.service import TriggerService
from pipecatapp.metrics import RunMetrics

log = structlog.get_logger()


class Stop:
    """Signals to endless responses that the service stops. Callable from a signal handler."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._at = 0.0
        self._signals = 0
        self._restarting = False

    def bind(self) -> None:
        """Belong to the running event loop."""
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> None:
        self._signals += 1
        if self._loop is not None:
            self._at = time.monotonic()
            self._loop.call_soon_threadsafe(self._asked.set)

    def restart(self) -> None:
        """Stop as after a SIGTERM, and start again."""
        self._restarting = True
        os.kill(os.getpid(), signal.SIGTERM)

    @property
    def restarts(self) -> bool:
        """True if the service is to start again: no other stop was requested meanwhile."""
        return self._restarting and self._signals == 1

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    async def wait(self) -> None:
        await self._asked.wait()

    def left(self, seconds: float) -> float:
        """Return how much of `seconds`, counted from the stop request, is left."""
        return max(0.0, self._at + seconds - time.monotonic()) if self._at else seconds


@dataclass
class Parts:
    """The run service and the other parts of the application."""

    runs: RunService
    directory: Directory
    metrics: RunMetrics
    stop: Stop
    schedules: Schedules
    triggers: TriggerService
    home: HomeService
    knowledge: Knowledge
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        engine = self.runs.engine
        self.conversations, self.notes = ConversationService(engine), NoteService(engine.ledger)
        self.fixes = FixService(engine.ledger)
        self.code_memory = CodeMemory(engine)
        self.runs.on_start = self.watch
        self.starter = Starter(self.schedules, self._start_scheduled, self._workflows)

    def _workflows(self) -> Iterable[Workflow]:
        return self.runs.engine.workflows.values()

    async def _start_scheduled(
        self, workflow: str, inputs: Mapping[str, Any], *, caller: str, beside: Beside
    ) -> str:
        document = Document(workflow=workflow)
        return await self.runs.start(document, dict(inputs), caller=caller, beside=beside)

    @property
    def runs_running(self) -> int:
        return len(self._running)

    def watch(self, run: str) -> None:
        """Count a run when it ends."""
        self._running[run] = self.spawn(self._count(run))
        self._running[run].add_done_callback(lambda task: self._forget(run, task))
        self.metrics.running.set(len(self._running))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a background task, which is cancelled when the service ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def all_ended(self) -> None:
        """Wait until no run is running."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def drain(self, seconds: float) -> None:
        """Wait for active runs to end; runs that are left are resumed at the next start."""
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=self.stop.left(seconds))
        for run in self._running:
            log.info("run_left_unfinished", run=run)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _count(self, run: str) -> None:
        await self.runs.engine.wait(run)
        engine = self.runs.engine
        calls = await asyncio.to_thread(engine.ledger.read.tool_times, run)
        ended = engine.summary(run)
        name = ended.workflow if ended.workflow in engine.workflows else "document"
        self.metrics.ended(ended, calls, workflow=name)
        log.info("run_ended", run=run, workflow=ended.workflow, status=ended.status)

    def _forget(self, run: str, counted: asyncio.Task[None]) -> None:
        """A run whose counting was cancelled is left for the next start, so it still counts."""
        if not counted.cancelled():
            del self._running[run]
            self.metrics.running.set(len(self._running))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background_work_failed", exc_info=error)


def parts_of(request: Request) -> Parts:
    parts = request.app.state.parts
    assert isinstance(parts, Parts)
    return parts


WithParts = Annotated[Parts, Depends(parts_of)]
