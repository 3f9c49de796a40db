"""What people see of runs, as plain data for the API, the page and the shell."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.workflow.ledger.event import Status
from pipecatapp.workflow.plan import Graph


class Tokens(BaseModel):
    """How many tokens models read and wrote."""

    prompt: int = 0
    completion: int = 0


class StepView(BaseModel):
    """One instance of a node, or one call inside an agent."""

    path: str
    node: str
    tool: str | None
    effect: str | None
    status: Status
    attempt: int
    started: str
    ended: str | None
    seconds: float | None
    input: Any
    output: Any
    error: str | None
    prompt: Any
    model: str | None
    tokens: Tokens
    facts: dict[str, Any]


class RunSummary(BaseModel):
    """One line in the list of runs."""

    id: str
    workflow: str
    status: Status
    started: str
    ended: str | None
    seconds: float | None
    title: str
    """The first 80 characters of the request."""
    conversation: str | None
    tokens: Tokens


class RunView(BaseModel):
    """Everything about one run."""

    id: str
    workflow: str
    status: Status
    inputs: dict[str, Any]
    outputs: dict[str, Any] | None
    error: str | None
    request: str
    conversation: str | None
    caller: str
    started: str
    ended: str | None
    seconds: float | None
    tokens: Tokens
    graph: Graph
    steps: list[StepView]


class RunResult(BaseModel):
    """How a run ended."""

    model_config = ConfigDict(frozen=True)

    run: str
    status: Literal["done", "failed", "cancelled"]
    outputs: dict[str, Any] = Field(default_factory=dict)
    error: str | None = None


class Turn(BaseModel):
    """One exchange of a conversation: a finished run's request and answer."""

    run: str
    at: str
    user: str
    assistant: str
