"""The run ledger: one SQLite file that knows everything that has happened."""

from pipecatapp.workflow.ledger.event import Event, EventType, Status
from pipecatapp.workflow.ledger.store import Ledger, Note

__all__ = ["Event", "EventType", "Ledger", "Note", "Status"]
