"""The lease of a ledger: one process may execute runs, named in a row with a heartbeat."""

import os
import secrets
import socket
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path

from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.errors import LedgerBusy, LedgerFailed

STALE = 30.0
"""Seconds without a heartbeat after which a process that cannot be checked counts as dead."""


FRESH = 1.0
"""Seconds after a heartbeat in which a commit brings none: it is one page more to write."""


@dataclass
class Lease:
    """This process's claim. Two in one process are two claims."""

    owner: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        self._beat = 0.0

    def take(self, connection: sqlite3.Connection, path: Path) -> None:
        """Claim the ledger; raises `LedgerBusy` while another claim lives."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            refuse_if_held(connection, path)
        except LedgerBusy:
            connection.execute("ROLLBACK")
            raise
        connection.execute(
            "INSERT OR REPLACE INTO lease VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.owner,
                place(),
                socket.gethostname(),
                os.getpid(),
                f"{_born(os.getpid())} {path.stat().st_ino}",
                now(),
                time.time(),
            ),
        )
        connection.execute("COMMIT")

    def beat(self, connection: sqlite3.Connection) -> None:
        """Inside a transaction: still here.

        Fails it when the claim was taken over, so nothing stale is written.
        """
        at = time.time()
        if 0 <= at - self._beat < FRESH:
            sql = "SELECT 1 FROM lease WHERE owner = ?"
            held = connection.execute(sql, (self.owner,)).fetchone() is not None
        else:
            sql = "UPDATE lease SET heartbeat = ? WHERE owner = ?"
            held = connection.execute(sql, (at, self.owner)).rowcount == 1
            self._beat = at
        if not held:
            raise LedgerFailed(
                "Another process has taken the ledger over; this one was silent for too long."
            )

    def give_back(self, connection: sqlite3.Connection) -> None:
        """End the claim."""
        connection.execute("DELETE FROM lease WHERE owner = ?", (self.owner,))


def refuse_if_held(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `LedgerBusy` while a process holds the ledger."""
    holder = connection.execute("SELECT * FROM lease").fetchone()
    if holder is not None and lives(holder) and not _copied(holder, path):
        who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        raise LedgerBusy(f"{path} is in use by {who}.")


def lives(holder: sqlite3.Row) -> bool:
    if holder["place"] == place():
        return bool(holder["born"].partition(" ")[0] == _born(holder["pid"]))
    return bool(abs(time.time() - holder["heartbeat"]) < STALE)  # Power cuts put clocks back.


def _copied(holder: sqlite3.Row, path: Path) -> bool:
    """Return whether the lease was copied with the file: its process holds the original file. Inode
    numbers can be compared only on the machine of that process.
    """
    number = holder["born"].partition(" ")[2]
    return holder["place"] == place() and number not in ("", str(path.stat().st_ino))


def place() -> str:
    """Where process ids mean what they mean here: this boot of this host, this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _born(pid: int) -> str:
    """When the process started, in clock ticks, so that a reused id is not taken for it.

    Empty when there is none.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[19]
    except OSError:
        return "alive" if not Path("/proc/self").exists() and _answers(pid) else ""


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
