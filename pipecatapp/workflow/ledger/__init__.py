"""The run ledger: one SQLite file with all runs and their events."""

from pipecatapp.workflow.ledger.errors import (
    DiskFull,
    LedgerBusy,
    LedgerError,
    LedgerFailed,
    LedgerTooNew,
    NotImported,
)
from pipecatapp.workflow.ledger.event import Event, EventType, Status
from pipecatapp.workflow.ledger.store import Ledger

__all__ = [
    "DiskFull",
    "Event",
    "EventType",
    "Ledger",
    "LedgerBusy",
    "LedgerError",
    "LedgerFailed",
    "LedgerTooNew",
    "NotImported",
    "Status",
]
