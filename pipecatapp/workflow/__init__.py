"""The workflow engine: documents, tools, runs. Sealed: it knows nothing else of ours."""

from pipecatapp.workflow.channel import Delta, Listener
from pipecatapp.workflow.compiler import compile_workflow
from pipecatapp.workflow.document import Prompt, Workflow, load_document
from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument
from pipecatapp.workflow.engine import Engine, InvalidInputs, UnknownRun, UnknownWorkflow
from pipecatapp.workflow.ledger import (
    Event,
    Ledger,
    LedgerBusy,
    LedgerFailed,
    LedgerTooNew,
    Note,
)
from pipecatapp.workflow.plan import Graph, Plan, plan_text
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
from pipecatapp.workflow.views import (
    ConversationSummary,
    RunResult,
    RunSummary,
    RunView,
    StepView,
    Tokens,
    Turn,
)

__all__ = [
    "Context",
    "ConversationSummary",
    "Delta",
    "Diagnostic",
    "Effect",
    "Engine",
    "Event",
    "Graph",
    "InvalidDocument",
    "InvalidInputs",
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
    "UnknownRun",
    "UnknownWorkflow",
    "Workflow",
    "compile_workflow",
    "load_document",
    "plan_text",
    "tool",
]
