"""The one thread that writes a ledger.

Many runs share a commit; nobody is told of what is not on the disk.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import structlog

from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.event import Event, EventType
from pipecatapp.workflow.ledger.lease import Lease
from pipecatapp.workflow.ledger.values import Statement, canonical

_log = structlog.get_logger()

_TROUBLE = (sqlite3.Error, LedgerFailed, ValueError, OverflowError)
"""What a write can fail with: the disk, the lease, and values that SQLite cannot hold."""

BATCH = 500
"""Writes that share a commit at most."""


@dataclass(frozen=True)
class Draft:
    """An event before it has its number."""

    type: EventType
    path: str = ""
    node: str = ""
    data: dict[str, object] | None = None


@dataclass
class Write:
    """What belongs together: it is on the disk as a whole or not at all."""

    run: str
    statements: Sequence[Statement]
    event: Draft | None
    done: "asyncio.Future[Event | None]"
    last: bool = False
    """The end of a run of which a write has failed; it is tried all the same."""
    result: Event | LedgerFailed | None = None


class Writer:
    """Takes writes on the event loop, commits them in a thread, tells of each once it is durable.

    Writes that are submitted without an `await` between them share a transaction. After a write of
    a run has failed, later ones of that run fail too, so what is in the ledger is always a true
    beginning of what happened.
    """

    def __init__(self, connection: sqlite3.Connection, lease: Lease, *, heartbeat: float) -> None:
        self._connection, self._lease, self._heartbeat = connection, lease, heartbeat
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[Write] | None] = SimpleQueue()
        self._tick: list[Write] = []
        self._broken: dict[str, LedgerFailed] = {}
        self._hear: Callable[[Event], None] = lambda _event: None
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)

    def start(self, hear: Callable[[Event], None]) -> None:
        """Begin to write; `hear` is called on the loop for each committed event, in order."""
        self._hear = hear
        self._thread.start()

    async def stop(self) -> None:
        """Write what was submitted, then end."""
        self._flush()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        await asyncio.sleep(0)

    def submit(
        self,
        run: str,
        statements: Sequence[Statement],
        event: Draft | None = None,
        *,
        last: bool = False,
    ) -> "asyncio.Future[Event | None]":
        """Queue a write.

        The future is done once it is on the disk, or has failed with `LedgerFailed`.
        """
        write = Write(run, statements, event, self._loop.create_future(), last)
        if not self._tick:
            self._loop.call_soon(self._flush)
        self._tick.append(write)
        return write.done

    def _flush(self) -> None:
        if self._tick:
            self._queue.put(self._tick)
            self._tick = []

    def _work(self) -> None:
        while True:
            batch = self._next()
            if batch is None:
                return
            self._commit(batch)
            if batch:
                self._loop.call_soon_threadsafe(self._tell, batch)

    def _next(self) -> list[Write] | None:
        """All that waits, up to a batch; an empty one when it is time for a heartbeat; None at the
        end.
        """
        try:
            batch = self._queue.get(timeout=self._heartbeat)
        except Empty:
            return []
        while batch is not None and len(batch) < BATCH and not self._queue.empty():
            more = self._queue.get()
            if more is None:
                self._queue.put(None)
                break
            batch = batch + more
        return batch

    def _commit(self, batch: list[Write]) -> None:
        try:
            self._transaction([write for write in batch if not self._refused(write)])
        except _TROUBLE as error:
            _log.warning("ledger_write_failed", error=str(error), writes=len(batch))
            together = isinstance(error, LedgerFailed) or _locked(error)
            for write in batch:
                if not self._refused(write):
                    self._fail(write, error) if together else self._commit_alone(write)

    def _commit_alone(self, write: Write) -> None:
        """One run's trouble (a value too large for the disk that is left) is not another's."""
        try:
            self._transaction([write])
        except _TROUBLE as error:
            self._fail(write, error)

    def _fail(self, write: Write, error: Exception) -> None:
        write.result = LedgerFailed(f"The ledger could not be written: {error}")
        if write.run:
            self._broken[write.run] = write.result

    def _refused(self, write: Write) -> bool:
        write.result = None if write.last else self._broken.get(write.run)
        return write.result is not None

    def _transaction(self, writes: list[Write]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
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

    def _tell(self, batch: list[Write]) -> None:
        for write in batch:
            if isinstance(write.result, Event):
                self._hear(write.result)
        for write in batch:
            if write.last:
                self._broken.pop(write.run, None)
            if write.done.cancelled():
                continue
            if isinstance(write.result, LedgerFailed):
                write.done.set_exception(write.result)
            else:
                write.done.set_result(write.result)


def _locked(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
