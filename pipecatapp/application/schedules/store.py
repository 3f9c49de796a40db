"""The schedules of an instance, in its ledger."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.application.schedules.timing import Timing
from pipecatapp.workflow import Ledger, Status, Workflow

log = structlog.get_logger()

Statement = tuple[str, tuple[Any, ...]]
Origin = Literal["document", "person"]
ID: Final = r"^[a-z][a-z0-9-]*$"


class UnknownSchedule(LookupError):
    """The schedule does not exist: see the list of schedules."""


class ScheduleKept(ValueError):
    """The schedule is part of a document: change the document. It can be paused, though."""


class NewSchedule(BaseModel):
    """A requested schedule: a workflow with inputs, at the times of `cron` or `every`."""

    model_config = ConfigDict(extra="forbid")

    workflow: str = Field(min_length=1, max_length=200)
    cron: str | None = Field(None, max_length=200)
    every: float | None = None
    """Seconds."""
    zone: str | None = Field(None, max_length=100)
    inputs: dict[str, Any] = {}

    def timing(self) -> Timing:
        return Timing(self.cron, self.every, self.zone)


class Schedule(BaseModel):
    """The current state of a schedule."""

    id: str
    workflow: str
    origin: Origin
    """Whether it comes from a workflow's document or from a person."""
    cron: str | None
    every: float | None
    zone: str | None
    inputs: dict[str, Any]
    paused: bool
    due: str | None
    """The next start: ISO 8601, UTC. None when there is none."""
    started: str | None
    """The last start."""
    run: str | None
    """The run that was started last."""
    status: Status | None = None
    """How that run is; None when there is none, or it is removed."""
    error: str | None
    """Why the last start failed."""

    @property
    def timing(self) -> Timing:
        return Timing(self.cron, self.every, self.zone)


_SELECT: Final = """SELECT schedule.*, run.status FROM schedule
    LEFT JOIN run ON run.id = schedule.run"""
_COLUMNS: Final = "id, workflow, origin, cron, every, zone, inputs, paused, due"


class Schedules:
    """Reads them, and writes them through the ledger that this process holds."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: set[str] = set()

    def all(self) -> list[Schedule]:
        """Every one, the next to start first."""
        rows = self._ledger.read.rows(f"{_SELECT} ORDER BY paused, due IS NULL, due, schedule.id")
        return [_schedule(row) for row in rows]

    def get(self, id: str) -> Schedule:
        """One; raises `UnknownSchedule`."""
        rows = self._ledger.read.rows(f"{_SELECT} WHERE schedule.id = ?", (id,))
        if not rows:
            raise UnknownSchedule(f"There is no schedule {id!r}.")
        return _schedule(rows[0])

    async def put(self, id: str, new: NewSchedule) -> Schedule:
        """Make or replace one of a person; raises `WrongTiming` and `ScheduleKept`."""
        new.timing().check()
        self._refuse_kept(id)
        due = new.timing().after(datetime.now(UTC))
        values = (new.workflow, "person", new.cron, new.every, new.zone, json.dumps(new.inputs))
        await self._write([_replacing(id, values, paused=False, due=due)])
        return self.get(id)

    async def remove(self, id: str) -> None:
        """Forget one of a person; raises `UnknownSchedule` and `ScheduleKept`."""
        self.get(id)
        self._refuse_kept(id)
        await self._write([("DELETE FROM schedule WHERE id = ?", (id,))])

    async def pause(self, id: str, *, paused: bool) -> Schedule:
        """Start no more, or again: from the next time on, without what was missed."""
        due = self.get(id).timing.after(datetime.now(UTC))
        update = "UPDATE schedule SET paused = ?, due = ?, error = NULL WHERE id = ?"
        await self._write([(update, (paused, None if paused else text_of(due), id))])
        return self.get(id)

    async def failed(self, id: str, reason: str, due: datetime | None) -> None:
        """Note that a start failed; the next one is tried at its time."""
        update = "UPDATE schedule SET error = ?, due = ?, started = ? WHERE id = ?"
        at = text_of(datetime.now(UTC))
        await self._write([(update, (reason[:1000], text_of(due), at, id))])

    async def follow(self, workflows: Iterable[Workflow]) -> None:
        """Update the schedules to the documents; an unchanged one keeps its next time.

        A schedule that a person added has priority over a document with the same id until it is
        removed.
        """
        known = {one.id: one for one in self.all()}
        said = {one.id: one for one in workflows if one.document.schedule is not None}
        own = {id for id, one in known.items() if one.origin == "person"} & said.keys()
        if own - self._told:
            log.warning("schedules_of_documents_not_followed", persons=sorted(own))
        self._told = own
        statements: list[Statement] = [
            ("DELETE FROM schedule WHERE id = ?", (id,))
            for id, one in known.items()
            if one.origin == "document" and id not in said
        ]
        for id in said.keys() - own:
            statements += _following(said[id], known.get(id))
        if statements:
            await self._write(statements)

    def _refuse_kept(self, id: str) -> None:
        rows = self._ledger.read.rows("SELECT origin FROM schedule WHERE id = ?", (id,))
        if rows and rows[0]["origin"] == "document":
            raise ScheduleKept(f"The document of the workflow {id!r} defines this schedule.")

    async def _write(self, statements: list[Statement]) -> None:
        await self._ledger.submit("", statements)


def started(id: str, run: str, due: datetime | None) -> Statement:
    """Notes a start; written together with the run, so neither is there without the other."""
    update = "UPDATE schedule SET run = ?, started = ?, due = ?, error = NULL WHERE id = ?"
    return update, (run, text_of(datetime.now(UTC)), text_of(due), id)


def _following(workflow: Workflow, before: Schedule | None) -> list[Statement]:
    """Return the statements that update the schedule to its document; none if it is up to date."""
    if (said := workflow.document.schedule) is None:
        return []
    timing = Timing(said.cron, said.every, said.zone)
    if before is not None and (before.timing, before.inputs) == (timing, said.inputs):
        return []
    due = timing.after(datetime.now(UTC))
    if before is not None and before.timing == timing:
        due = None if before.due is None else datetime.fromisoformat(before.due)
    values = (workflow.id, "document", said.cron, said.every, said.zone, json.dumps(said.inputs))
    paused = before is not None and before.paused
    return [_replacing(workflow.id, values, paused=paused, due=None if paused else due)]


def _replacing(
    id: str, values: tuple[Any, ...], *, paused: bool, due: datetime | None
) -> Statement:
    insert = f"""INSERT INTO schedule ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET workflow = excluded.workflow, origin = excluded.origin,
        cron = excluded.cron, every = excluded.every, zone = excluded.zone,
        inputs = excluded.inputs, paused = excluded.paused, due = excluded.due, error = NULL"""
    return insert, (id, *values, paused, text_of(due))


def text_of(moment: datetime | None) -> str | None:
    """As the ledger writes times: ISO 8601, UTC, milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _schedule(row: sqlite3.Row) -> Schedule:
    told: Mapping[str, Any] = {**dict(row), "inputs": json.loads(row["inputs"])}
    return Schedule.model_validate(told)
