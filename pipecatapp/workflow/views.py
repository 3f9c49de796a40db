"""Views of runs as plain data for the API, the page and the shell."""

import json
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.workflow.graph import Graph
from pipecatapp.workflow.ledger.clock import seconds_between
from pipecatapp.workflow.ledger.event import Status
from pipecatapp.workflow.ledger.reading import Reader, RunRow, StepRow
from pipecatapp.workflow.plan import Plan
from pipecatapp.workflow.running.expansion import plans_of


class Tokens(BaseModel):
    """How many tokens models read and wrote."""

    prompt: int = 0
    completion: int = 0
    cost: float = 0.0
    """Sum of tokens, each multiplied by the relative cost of its model."""


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
    caller: str
    owner: str
    """The name of the key that the run belongs to; empty for the built-in key."""
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
    owner: str
    """The name of the key that the run belongs to; empty for the built-in key."""
    forked: str | None
    """The run that this one took over from."""
    started: str
    ended: str | None
    seconds: float | None
    tokens: Tokens
    spoken: dict[str, float] | None
    """Latency from the end of a person's speech to the first audio of the answer, in seconds by
    stage; None for a run without speech."""
    graph: Graph
    steps: list[StepView]
    """The last field: see `json_of`."""


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
        caller=row.caller,
        owner=row.owner,
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
    used = spent(steps)
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
        owner=row.owner,
        forked=row.forked,
        started=row.started,
        ended=row.ended,
        seconds=_seconds(row),
        tokens=_tokens(row),
        spoken=None if row.spoken is None else json.loads(row.spoken),
        graph=_graph(reader, row, steps),
        steps=[_step(reader, step, used[step.path], why.get(step.path, "")) for step in steps],
    )


def _graph(reader: Reader, row: RunRow, steps: list[StepRow]) -> Graph:
    """Return the graph of a run, including the plans that it has started so far."""
    graph = Plan.model_validate(reader.value(row.plan)).graph()
    for node, plan in plans_of(steps, reader.value).items():
        inside = plan.graph(node)
        graph.nodes.extend(inside.nodes)
        graph.edges.extend(inside.edges)
    return graph


def json_of(run: RunView) -> str:
    """A run as JSON, written step by step: one call for all of them would hold the interpreter
    lock, and with it every other thread, for a tenth of a second.
    """
    head = run.model_copy(update={"steps": []}).model_dump_json().removesuffix("]}")
    return f"{head}{','.join(step.model_dump_json() for step in run.steps)}]}}"


def spent(steps: list[StepRow]) -> dict[str, Tokens]:
    """Tokens by path of a step, including those of the steps inside it."""
    used = {step.path: Tokens() for step in steps}
    for step in steps:
        if step.prompt_tokens or step.completion_tokens or step.cost:
            parts = step.path.split("/")
            for length in range(1, len(parts) + 1):
                if (total := used.get("/".join(parts[:length]))) is not None:
                    total.prompt += step.prompt_tokens
                    total.completion += step.completion_tokens
                    total.cost += step.cost
    for total in used.values():
        total.cost = round(total.cost, 6)
    return used


def _step(reader: Reader, row: StepRow, tokens: Tokens, why: str) -> StepView:
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
        tokens=tokens,
        facts=reader.value(row.facts) or {},
        why=why,
    )


def _tokens(row: RunRow) -> Tokens:
    cost = round(row.cost, 6)
    return Tokens(prompt=row.prompt_tokens, completion=row.completion_tokens, cost=cost)


def _seconds(row: RunRow | StepRow) -> float | None:
    return None if row.ended is None else seconds_between(row.started, row.ended)
