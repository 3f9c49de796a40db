"""The ledger as the engine holds it: one file, any number of readers, one process that executes and
writes.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from pipecatapp.workflow.ledger.clock import Names
from pipecatapp.workflow.ledger.errors import DiskFull, LedgerBusy, LedgerError, LedgerFailed
from pipecatapp.workflow.ledger.event import Event
from pipecatapp.workflow.ledger.journal import Journal
from pipecatapp.workflow.ledger.lease import Lease
from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.ledger.schema import check, connect, prepare
from pipecatapp.workflow.ledger.values import Statement
from pipecatapp.workflow.ledger.writer import Draft, Writer

_log = structlog.get_logger()


class Ledger:
    """Opening creates or migrates the file and permits reading. Writing needs `hold()`.

    Raises `LedgerTooNew` and `LedgerFailed` on opening, `LedgerBusy` and `LedgerDamaged` on
    holding. `patience` is the number of seconds for which a write waits for a lock of another
    program.
    """

    def __init__(self, path: Path, *, patience: float = 5.0, heartbeat: float = 10.0) -> None:
        self.path, self._patience, self._heartbeat = path, patience, heartbeat
        prepare(path, patience=patience)
        self.read = Reader(path, patience=patience)
        self.names = Names()
        self.on_full: Callable[[bool], None] = lambda _full: None
        """Called with whether the disk is full, when that changes; runs pause meanwhile."""
        self._full = False
        self._lease = Lease()
        self._writer: Writer | None = None

    def close(self) -> None:
        """End reading. A ledger that is held is let go first, with `let_go()`."""
        self.read.close()

    async def hold(self, hear: Callable[[Event], None]) -> None:
        """Become the process that executes; `hear` gets each event once it is on the disk."""
        if self._writer is not None:
            raise LedgerBusy(f"{self.path} is already held by an engine of this process.")
        connection = connect(self.path, patience=self._patience)
        try:
            await asyncio.to_thread(check, connection, self.path)
            self._lease.take(connection, self.path)
        except (sqlite3.Error, LedgerError) as error:
            connection.close()
            if isinstance(error, LedgerError):
                raise
            raise LedgerFailed(f"{self.path} cannot be held: {error}.") from error
        self._connection = connection
        self.names = Names(self.read.newest())
        self._writer = Writer(
            connection,
            self._lease,
            heartbeat=self._heartbeat,
            patience=self._patience,
            on_full=self._filled,
        )
        self._writer.start(hear)

    def _filled(self, full: bool) -> None:  # noqa: FBT001 (a callback of one fact)
        self._full = full
        self.on_full(full)

    def check_room(self) -> None:
        """Raise `DiskFull` while the disk is known to be full."""
        if self._full:
            raise DiskFull(self.path)

    async def let_go(self) -> None:
        """Write pending entries and release the lease."""
        if self._writer is not None:
            await self._writer.stop()
            self._writer = None
            try:
                self._lease.give_back(self._connection)
            except sqlite3.Error as error:
                _log.warning("lease_not_given_back", ledger=str(self.path), error=str(error))
            self._connection.close()

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
        """Queue a write; see `Writer.submit`."""
        if self._writer is None:
            raise LedgerFailed(
                f"{self.path} is open for reading only; an engine must hold it to write."
            )
        return self._writer.submit(
            run, statements, event, last=last, pauses=pauses, on_written=on_written
        )

    def journal(self, run: str) -> Journal:
        """Return the journal of a run."""
        return Journal(self.submit, run)
