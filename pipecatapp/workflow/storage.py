"""Public: tables in the ledger's file, and what to know to read, move and back up that file."""

from pipecatapp.workflow.ledger.claim import outwait
from pipecatapp.workflow.ledger.clock import now, seconds_between
from pipecatapp.workflow.ledger.inbox import added, answers, presets
from pipecatapp.workflow.ledger.journal import TITLE
from pipecatapp.workflow.ledger.lease import refuse_if_held
from pipecatapp.workflow.ledger.reading import (
    WORD,
    Reader,
    RunFilter,
    RunRow,
    RunValues,
    StepRow,
    ToolTime,
)
from pipecatapp.workflow.ledger.schema import APPLICATION_ID, MIGRATIONS
from pipecatapp.workflow.ledger.values import Statement, canonical, clean, pack, read_json
from pipecatapp.workflow.trees import facts_of, state_in
from pipecatapp.workflow.views import spent

__all__ = [
    "APPLICATION_ID",
    "MIGRATIONS",
    "TITLE",
    "WORD",
    "Reader",
    "RunFilter",
    "RunRow",
    "RunValues",
    "Statement",
    "StepRow",
    "ToolTime",
    "added",
    "answers",
    "canonical",
    "clean",
    "facts_of",
    "now",
    "outwait",
    "pack",
    "presets",
    "read_json",
    "refuse_if_held",
    "seconds_between",
    "spent",
    "state_in",
]
