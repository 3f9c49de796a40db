"""The envelope of everything that happens in a run."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

EventType = Literal[
    "run.started",
    "run.resumed",
    "run.note",
    "run.done",
    "run.failed",
    "run.cancelled",
    "node.queued",
    "node.running",
    "node.waiting",
    "node.done",
    "node.skipped",
    "node.failed",
    "node.cancelled",
]
Status = Literal["queued", "running", "waiting", "done", "skipped", "failed", "cancelled"]

LAST_EVENTS: frozenset[str] = frozenset({"run.done", "run.failed", "run.cancelled"})
"""After one of these a run has no more events."""


class Event(BaseModel):
    """One entry of the ledger. `seq` grows over the whole ledger and is the id of the SSE feed."""

    model_config = ConfigDict(frozen=True)

    v: Literal[1] = 1
    seq: int
    run: str
    at: str
    """ISO 8601, UTC, milliseconds."""
    type: EventType
    path: str = ""
    """The instance: `reply/turn[1]/llm`. Empty for events of the run itself."""
    node: str = ""
    """The node of the document the instance belongs to: `reply`."""
    data: dict[str, Any] = {}

    @property
    def last(self) -> bool:
        """Whether the run ended with it."""
        return self.type in LAST_EVENTS
