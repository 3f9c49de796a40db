"""Starts what is due, each time once, as long as this process holds the ledger."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog

from pipecatapp.application.schedules.store import Schedule, Schedules, started
from pipecatapp.application.schedules.timing import WrongTiming
from pipecatapp.workflow import (
    InvalidDocument,
    InvalidInputs,
    LedgerFailed,
    UnknownWorkflow,
    Workflow,
)

log = structlog.get_logger()

LONGEST_SLEEP: Final = 20.0
"""Seconds after which it looks again, so that a clock that was set does not matter for long."""
NOT_STARTED: Final = (InvalidDocument, InvalidInputs, UnknownWorkflow, LookupError, WrongTiming)
"""`WrongTiming`: the zone does not exist on this machine any more. Other schedules continue."""

Beside = Callable[[str], Sequence[tuple[str, tuple[Any, ...]]]]


class NotStarted(Exception):
    """A schedule cannot be started now. Correct what the message names, or start it again later."""


class Start(Protocol):
    """Starts a workflow and returns the run's id; the statements of `beside` are in its
    transaction."""

    async def __call__(
        self, workflow: str, inputs: Mapping[str, Any], *, caller: str, beside: Beside
    ) -> str: ...


class Starter:
    """Waits for the next time, starts, waits again.

    A run and the note that its time is over are one transaction: a process that is killed at any
    moment has either started a run or will. Times that passed while nothing ran, or while the run
    before still went on, are made up for by one run.
    """

    def __init__(
        self,
        schedules: Schedules,
        start: Start,
        workflows: Callable[[], Iterable[Workflow]] = tuple,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.schedules, self._start, self._now = schedules, start, now
        self._workflows = workflows
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Check the schedules at once, because one has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self.schedules.follow(self._workflows())
                await self.start_due()
                left = self._until_next()
            except LedgerFailed as error:
                log.error("schedules_not_read", reason=str(error))
                left = LONGEST_SLEEP
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    async def start_due(self) -> list[str]:
        """Start all due schedules; returns the runs."""
        runs = [await self.start(one) for one in self.schedules.all() if self._is_due(one)]
        return [run for run in runs if run is not None]

    async def start(self, schedule: Schedule) -> str | None:
        """Start one now, whether it is due or not; None when it cannot be, which is noted."""
        due = None
        try:
            due = self._following(schedule)
            run = await self._start(
                schedule.workflow,
                schedule.inputs,
                caller=f"schedule/{schedule.id}",
                beside=lambda run: [started(schedule.id, run, due)],
            )
        except NOT_STARTED as error:
            log.warning("schedule_not_started", schedule=schedule.id, reason=str(error))
            await self.schedules.failed(schedule.id, str(error), due)
            return None
        log.info("schedule_started", schedule=schedule.id, run=run)
        return run

    def _is_due(self, schedule: Schedule) -> bool:
        if schedule.paused or schedule.due is None or schedule.status in ("running", "waiting"):
            return False
        return datetime.fromisoformat(schedule.due) <= self._now()

    def _following(self, schedule: Schedule) -> datetime | None:
        """When it is due after a start now; a start before its time leaves that time."""
        if schedule.paused or schedule.due is None:
            return None
        due, now = datetime.fromisoformat(schedule.due), self._now()
        return due if due > now else schedule.timing.next_due(due, now)

    def _until_next(self) -> float:
        times = [one.due for one in self.schedules.all() if one.due and not one.paused]
        if not times:
            return LONGEST_SLEEP
        left = (datetime.fromisoformat(min(times)) - self._now()).total_seconds()
        return min(LONGEST_SLEEP, max(1.0, left))
