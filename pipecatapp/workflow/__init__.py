"""The workflow engine: documents, tools, runs. Sealed: it knows nothing else of ours."""

from pipecatapp.workflow.channel import Delta, Listener
from pipecatapp.workflow.compiler import compile_workflow, plan_text
from pipecatapp.workflow.document import Prompt, Workflow, load_document
from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument
from pipecatapp.workflow.engine import Engine
from pipecatapp.workflow.ledger.event import Event
from pipecatapp.workflow.ledger.store import (
    Ledger,
    LedgerBusy,
    LedgerFailed,
    LedgerTooNew,
    Note,
)
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.tool import (
    Context,
    Effect,
    ModelFacts,
    ServiceMissing,
    Tool,
    ToolFailed,
    ToolMistake,
    tool,
)
from pipecatapp.workflow.views import RunResult, RunSummary, RunView, StepView, Tokens, Turn

__all__ = [
    "Context",
    "Delta",
    "Diagnostic",
    "Effect",
    "Engine",
    "Event",
    "InvalidDocument",
    "Ledger",
    "LedgerBusy",
    "LedgerFailed",
    "LedgerTooNew",
    "Listener",
    "ModelFacts",
    "Note",
    "Plan",
    "Prompt",
    "RunResult",
    "RunSummary",
    "RunView",
    "ServiceMissing",
    "StepView",
    "Tokens",
    "Tool",
    "ToolFailed",
    "ToolMistake",
    "Turn",
    "Workflow",
    "compile_workflow",
    "load_document",
    "plan_text",
    "tool",
]
