"""A lease whose holder cannot be checked from here, and the wait for its expiry."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog

from pipecatapp.workflow.ledger.lease import STALE, lives, place

log = structlog.get_logger()

LOOK: Final = 0.25
"""Seconds between two checks of the heartbeat."""


async def outwait(ledger: Path) -> None:
    """Return when it is known whether the holder of the ledger is alive, after at most `STALE`.

    A killed container, or a machine that lost power, leaves a claim that the next process cannot
    check. If the next process ended because of it, its supervisor would soon stop restarting it. A
    live holder is recognised by its next heartbeat, and is not waited for.
    """
    ends, first = time.monotonic() + STALE, _unseen(ledger)
    if first is not None:
        log.info("ledger_holder_waited_for", ledger=str(ledger), host=first["host"])
    while first is not None and time.monotonic() < ends:
        await asyncio.sleep(LOOK)
        holder = _unseen(ledger)
        if holder is None or holder["heartbeat"] != first["heartbeat"]:
            return


def _unseen(ledger: Path) -> sqlite3.Row | None:
    """The claim, if it may be of a process that lives where we cannot look."""
    try:
        with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            holder: sqlite3.Row | None = connection.execute("SELECT * FROM lease").fetchone()
    except sqlite3.Error:
        return None  # no ledger, or not a ledger of Hearth: opening it reports that
    return None if holder is None or holder["place"] == place() or not lives(holder) else holder
