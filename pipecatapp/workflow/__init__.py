"""The workflow engine: documents, tools, runs. It imports no other package of Hearth's services."""

from pipecatapp.workflow.channel import Delta, Listener
from pipecatapp.workflow.compiling.compiler import compile_workflow
from pipecatapp.workflow.declaring import ToolMistake, tool
from pipecatapp.workflow.document import Project, Prompt, Workflow
from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument
from pipecatapp.workflow.engine import Engine, UnknownWorkflow
from pipecatapp.workflow.executor import InvalidInputs, UnknownRun, UnknownStep
from pipecatapp.workflow.graph import Graph
from pipecatapp.workflow.layers import Composition, Layer, Opinion, Written, flat_text, read_layer
from pipecatapp.workflow.ledger import (
    DiskFull,
    Event,
    Ledger,
    LedgerBusy,
    LedgerFailed,
    LedgerTooNew,
    NotImported,
    Status,
)
from pipecatapp.workflow.loading import Documents, load_document, read_document
from pipecatapp.workflow.needs import Need, Package, Program, Setting
from pipecatapp.workflow.plan import NotGranted, Plan, granting
from pipecatapp.workflow.running.waiting import NotAsked, WrongAnswer
from pipecatapp.workflow.todo import NoTodo, NotStruck, TodoItem
from pipecatapp.workflow.tool import (
    BY_AUTHOR,
    Approve,
    Context,
    Effect,
    ModelFacts,
    ModelNeeds,
    Question,
    Reply,
    ServiceMissing,
    Tool,
    ToolFailed,
    ToolInputs,
    complaints,
)
from pipecatapp.workflow.views import RunResult, RunSummary, RunView, StepView, Tokens, json_of
from pipecatapp.workflow.workspace import Workspaces, Worktree

__all__ = [
    "BY_AUTHOR",
    "Approve",
    "Composition",
    "Context",
    "Delta",
    "Diagnostic",
    "DiskFull",
    "Documents",
    "Effect",
    "Engine",
    "Event",
    "Graph",
    "InvalidDocument",
    "InvalidInputs",
    "Layer",
    "Ledger",
    "LedgerBusy",
    "LedgerFailed",
    "LedgerTooNew",
    "Listener",
    "ModelFacts",
    "ModelNeeds",
    "Need",
    "NoTodo",
    "NotAsked",
    "NotGranted",
    "NotImported",
    "NotStruck",
    "Opinion",
    "Package",
    "Plan",
    "Program",
    "Project",
    "Prompt",
    "Question",
    "Reply",
    "RunResult",
    "RunSummary",
    "RunView",
    "ServiceMissing",
    "Setting",
    "Status",
    "StepView",
    "TodoItem",
    "Tokens",
    "Tool",
    "ToolFailed",
    "ToolInputs",
    "ToolMistake",
    "UnknownRun",
    "UnknownStep",
    "UnknownWorkflow",
    "Workflow",
    "Workspaces",
    "Worktree",
    "Written",
    "WrongAnswer",
    "compile_workflow",
    "complaints",
    "flat_text",
    "granting",
    "json_of",
    "load_document",
    "read_document",
    "read_layer",
    "tool",
]
