"""What people see of runs, as plain data for the API, the page and the shell."""

import json
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.workflow.graph import Graph
from pipecatapp.workflow.ledger.clock import seconds_between
from pipecatapp.workflow.ledger.event import Status
from pipecatapp.workflow.ledger.reading import Reader, RunRow, StepRow
from pipecatapp.workflow.plan import Plan


class Tokens(BaseModel):
    """How many tokens models read and wrote."""

    prompt: int = 0
    completion: int = 0
    cost: float = 0.0
    """Each token times what one of its model costs beside those of other models."""


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
    why: str
    """Why it ran, though the run that this one is a fork of had it; empty where it had not."""


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
    forked: str | None
    """The run that this one took over from."""
    started: str
    ended: str | None
    seconds: float | None
    tokens: Tokens
    spoken: dict[str, float] | None
    """Where the time went from the end of a person's speech to the first sound of the answer, in
    seconds by stage; None for a run that nobody spoke to."""
    graph: Graph
    steps: list[StepView]


class RunResult(BaseModel):
    """How a run ended."""

    model_config = ConfigDict(frozen=True)

    run: str
    status: Literal["done", "failed", "cancelled"]
    outputs: dict[str, Any] = Field(default_factory=dict)
    error: str | None = None


def summary(row: RunRow) -> RunSummary:
    """The line of a run."""
    return RunSummary(
        id=row.id,
        workflow=row.workflow,
        status=row.status,
        started=row.started,
        ended=row.ended,
        seconds=_seconds(row),
        title=row.title,
        conversation=row.conversation,
        tokens=_tokens(row),
    )


def result(reader: Reader, row: RunRow) -> RunResult:
    """How a run that has ended ended."""
    status = cast("Literal['done', 'failed', 'cancelled']", row.status)
    return RunResult(
        run=row.id, status=status, outputs=reader.value(row.outputs) or {}, error=row.error
    )


def view(reader: Reader, row: RunRow) -> RunView:
    """A run with its graph and its steps."""
    steps, why = reader.steps(row.id), reader.reasons(row.id) if row.forked else {}
    return RunView(
        id=row.id,
        workflow=row.workflow,
        status=row.status,
        inputs=reader.value(row.inputs),
        outputs=reader.value(row.outputs),
        error=row.error,
        request=reader.value(row.request),
        conversation=row.conversation,
        caller=row.caller,
        forked=row.forked,
        started=row.started,
        ended=row.ended,
        seconds=_seconds(row),
        tokens=_tokens(row),
        spoken=None if row.spoken is None else json.loads(row.spoken),
        graph=Plan.model_validate(reader.value(row.plan)).graph(),
        steps=[_step(reader, step, steps, why.get(step.path, "")) for step in steps],
    )


def _step(reader: Reader, row: StepRow, all_rows: list[StepRow], why: str) -> StepView:
    """A step; what was spent inside it counts as spent by it."""
    inside = [
        step for step in all_rows if step.path == row.path or step.path.startswith(f"{row.path}/")
    ]
    return StepView(
        path=row.path,
        node=row.node,
        tool=row.tool,
        effect=row.effect,
        status=row.status,
        attempt=row.attempt,
        started=row.started,
        ended=row.ended,
        seconds=_seconds(row),
        input=reader.value(row.input),
        output=reader.value(row.output),
        error=row.error,
        prompt=reader.value(row.prompt),
        model=row.model,
        tokens=Tokens(
            prompt=sum(step.prompt_tokens for step in inside),
            completion=sum(step.completion_tokens for step in inside),
            cost=round(sum(step.cost for step in inside), 6),
        ),
        facts=reader.value(row.facts) or {},
        why=why,
    )


def _tokens(row: RunRow) -> Tokens:
    cost = round(row.cost, 6)
    return Tokens(prompt=row.prompt_tokens, completion=row.completion_tokens, cost=cost)


def _seconds(row: RunRow | StepRow) -> float | None:
    return None if row.ended is None else seconds_between(row.started, row.ended)
