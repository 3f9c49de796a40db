"""The one writer of a ledger.

Many runs share a commit; nothing is reported before it is on the disk.
"""

import asyncio
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

import structlog

from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.errors import DiskFull, LedgerFailed
from pipecatapp.workflow.ledger.event import Event, EventType
from pipecatapp.workflow.ledger.lease import Lease
from pipecatapp.workflow.ledger.values import Statement, canonical

_log = structlog.get_logger()

_TROUBLE = (sqlite3.Error, LedgerFailed, ValueError, OverflowError)
"""Errors of a write: the disk, the lease, and values that SQLite cannot store."""

BATCH = 500
"""Maximum number of writes in one commit."""

AGAIN = 0.5
"""Seconds between two tries to write while the disk is full."""

ROOM = 1 << 20
"""Bytes below which a failure of the disk is taken for its being full."""

RETRY = 0.01
"""Seconds between two tries to write a file that another program has locked."""

QUICK, QUICK_ONES, FEW = 0.001, 8, 16
"""After so many commits in a row of less than so many seconds, up to so many writes are committed
on the event loop itself: two threads that wake each other take longer than such a disk.
"""


@dataclass(frozen=True)
class Draft:
    """An event before it has its number."""

    type: EventType
    path: str = ""
    node: str = ""
    data: dict[str, object] | None = None


@dataclass
class Write:
    """Changes that are written in one transaction."""

    run: str
    statements: Sequence[Statement]
    event: Draft | None
    done: "asyncio.Future[Event | None]"
    last: bool = False
    """The end of a run of which a write has failed; it is tried all the same."""
    pauses: bool = True
    """Whether it is queued while the disk is full; the start of a run is refused instead."""
    on_written: Callable[[LedgerFailed | None], None] | None = None
    """Called after the commit, or with the error, even if nothing awaits `done`."""
    result: Event | LedgerFailed | None = None


class Writer:
    """Accepts writes on the event loop, commits them, and reports each once it is durable.

    A thread commits, so that the loop never waits for a slow disk; while the disk is fast and there
    is little to write, the loop commits itself (see `QUICK`).

    Writes that are submitted without an `await` between them share a transaction. So do the first
    writes of tasks that became ready meanwhile: the end of a step and the start of the next. After
    a write of a run has failed, later writes of that run fail too, so the ledger always contains a
    consistent prefix of the run. A write that does not fit on a full disk is queued, with all later
    writes of its run, and retried until there is space: the run pauses meanwhile. The start of a
    run fails with `DiskFull` instead.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        lease: Lease,
        *,
        heartbeat: float,
        patience: float,
        on_full: Callable[[bool], None] = lambda _full: None,
    ) -> None:
        """`patience`: seconds to wait for another program that has locked the file. `on_full` is
        called on the loop when the disk is full, and when all is written again.
        """
        self._connection, self._lease, self._on_full = connection, lease, on_full
        self._held: list[Write] = []
        self._full = False
        self._heartbeat, self._patience = heartbeat, patience
        connection.execute("PRAGMA busy_timeout = 0")
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[Write] | None] = SimpleQueue()
        self._tick: list[Write] = []
        self._handed, self._quick = 0, 0
        """Writes that the thread has not reported yet, and the number of consecutive fast
        commits."""
        self._turn = threading.Lock()
        self._broken: dict[str, LedgerFailed] = {}
        self._hear: Callable[[Event], None] = lambda _event: None
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)

    def start(self, hear: Callable[[Event], None]) -> None:
        """Start writing; `hear` is called on the loop for each committed event, in order."""
        self._hear = hear
        self._thread.start()

    async def stop(self) -> None:
        """Write what was submitted, then end."""
        self._flush()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.execute(f"PRAGMA busy_timeout = {round(self._patience * 1000)}")
        await asyncio.sleep(0)

    def submit(
        self,
        run: str,
        statements: Sequence[Statement],
        event: Draft | None = None,
        *,
        last: bool = False,
        pauses: bool = True,
        on_written: Callable[[LedgerFailed | None], None] | None = None,
    ) -> "asyncio.Future[Event | None]":
        """Queue a write.

        The future is done once it is on the disk, or has failed with `LedgerFailed`.
        """
        write = Write(run, statements, event, self._loop.create_future(), last, pauses, on_written)
        if not self._tick:
            # One iteration of the loop later, so that writes of tasks that start now are included.
            self._loop.call_soon(self._loop.call_soon, self._flush)
        self._tick.append(write)
        return write.done

    def _flush(self) -> None:
        batch, self._tick = self._tick, []
        if not batch:
            return
        quick = self._quick >= QUICK_ONES and self._handed == 0 and len(batch) <= FEW
        if quick and self._committed_here(batch):
            written = self._without_held(batch)
            self._handed += len(batch) - len(written)
            self._tell(written)
        else:
            self._handed += len(batch)
            self._queue.put(batch)

    def _committed_here(self, batch: list[Write]) -> bool:
        """Commit on the loop if that is fast; returns False while the thread sends a heartbeat."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            return self._commit(batch, patience=0)
        finally:
            self._turn.release()

    def _work(self) -> None:
        while True:
            batch = self._next()
            with self._turn:
                written = self._give_up_held() if batch is None else self._commit_held_and(batch)
            if written:
                self._loop.call_soon_threadsafe(self._told, written)
            if batch is None:
                return

    def _commit_held_and(self, batch: list[Write]) -> list[Write]:
        """Commit earlier held writes and a batch; returns the writes that need no further
        attempt."""
        writes, self._held, was_full = self._held + batch, [], self._full
        self._full = False
        self._commit(writes, patience=self._patience)
        self._full |= was_full and not self._has_room()
        if self._full != was_full:
            self._loop.call_soon_threadsafe(self._on_full, self._full)
            _log.warning("disk_full" if self._full else "disk_has_room", held=len(self._held))
        return self._without_held(writes)

    def _without_held(self, writes: list[Write]) -> list[Write]:
        held = {id(write) for write in self._held}
        return [write for write in writes if id(write) not in held] if held else writes

    def _give_up_held(self) -> list[Write]:
        held, self._held = self._held, []
        for write in held:
            self._fail(write, sqlite3.OperationalError("database or disk is full"))
        return held

    def _next(self) -> list[Write] | None:
        """All that waits, up to a batch; an empty one when it is time for a heartbeat; None at the
        end.
        """
        try:
            batch = self._queue.get(timeout=AGAIN if self._full else self._heartbeat)
        except Empty:
            return []
        while batch is not None and len(batch) < BATCH and not self._queue.empty():
            more = self._queue.get()
            if more is None:
                self._queue.put(None)
                break
            batch = batch + more
        return batch

    def _commit(self, batch: list[Write], *, patience: float) -> bool:
        """Commit all that is possible; returns False, without a change, if the file is locked and
        `patience` is over.
        """
        began = time.monotonic()
        try:
            self._transaction([write for write in batch if not self._refused(write)], patience)
        except _TROUBLE as error:
            self._quick = 0
            full = self._is_full(error)
            if (_locked(error) or full) and not patience:
                return False
            self._full |= full
            if not full:
                _log.warning("ledger_write_failed", error=str(error), writes=len(batch))
            together = isinstance(error, LedgerFailed) or _locked(error)
            for write in batch:
                if not self._refused(write):
                    self._fail(write, error) if together else self._commit_alone(write)
        else:
            self._quick = self._quick + 1 if time.monotonic() - began < QUICK else 0
        return True

    def _commit_alone(self, write: Write) -> None:
        """One run's trouble (a value too large for the disk that is left) is not another's."""
        if write.run and any(held.run == write.run for held in self._held):
            self._held.append(write)
            return
        try:
            self._transaction([write], self._patience)
        except _TROUBLE as error:
            if not self._is_full(error):
                self._fail(write, error)
                return
            self._full = True
            if write.pauses:
                self._held.append(write)
            else:
                write.result = DiskFull(self._file())

    def _is_full(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
        if code == sqlite3.SQLITE_FULL:
            return True
        # The index of the log is mapped into memory: SQLite calls its failure one of the disk.
        return code & 0xFF == sqlite3.SQLITE_IOERR and not self._has_room()

    def _file(self) -> Path:
        return Path(self._connection.execute("PRAGMA database_list").fetchone()["file"])

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._file().parent).free >= ROOM

    def _fail(self, write: Write, error: Exception) -> None:
        write.result = LedgerFailed(f"The ledger could not be written: {error}")
        if write.run:
            self._broken[write.run] = write.result

    def _refused(self, write: Write) -> bool:
        write.result = None if write.last else self._broken.get(write.run)
        return write.result is not None

    def _transaction(self, writes: list[Write], patience: float) -> None:
        self._begin(patience)
        try:
            self._lease.beat(self._connection)
            for write in writes:
                for sql, values in write.statements:
                    self._connection.execute(sql, values)
                write.result = self._number(write.run, write.event) if write.event else None
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _begin(self, patience: float) -> None:
        ends = time.monotonic() + patience
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _locked(error) or time.monotonic() >= ends:
                    raise
                time.sleep(RETRY)
            else:
                return

    def _number(self, run: str, draft: Draft) -> Event:
        at, data = now(), draft.data or {}
        row = self._connection.execute(
            "INSERT INTO event (v, run, at, type, path, node, data) VALUES (1, ?, ?, ?, ?, ?, ?)",
            (run, at, draft.type, draft.path, draft.node, canonical(data)),
        )
        seq = row.lastrowid or 0
        return Event(
            seq=seq, run=run, at=at, type=draft.type, path=draft.path, node=draft.node, data=data
        )

    def _told(self, batch: list[Write]) -> None:
        self._handed -= len(batch)
        self._tell(batch)

    def _tell(self, batch: list[Write]) -> None:
        for write in batch:
            if isinstance(write.result, Event):
                self._hear(write.result)
        for write in batch:
            if write.last:
                self._broken.pop(write.run, None)
            if isinstance(write.result, LedgerFailed):
                self._tell_failure(write, write.result)
                continue
            if not write.done.cancelled():
                write.done.set_result(write.result)
            if write.on_written is not None:
                write.on_written(None)

    def _tell_failure(self, write: Write, error: LedgerFailed) -> None:
        if not write.done.cancelled():
            write.done.set_exception(error)
            if write.on_written is not None:
                write.done.exception()  # `on_written` gets it.
        if write.on_written is not None:
            write.on_written(error)


def _locked(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
