"""What people see of runs, as plain data for the API, the page and the shell."""

from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.workflow.ledger.clock import seconds_between
from pipecatapp.workflow.ledger.event import Status
from pipecatapp.workflow.ledger.reading import Reader, RunRow, StepRow
from pipecatapp.workflow.ledger.values import canonical
from pipecatapp.workflow.plan import Graph, Plan


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


class ConversationSummary(BaseModel):
    """One line in the list of conversations."""

    id: str
    title: str
    updated: str


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
        tokens=Tokens(prompt=row.prompt_tokens, completion=row.completion_tokens),
    )


def result(reader: Reader, row: RunRow) -> RunResult:
    """How a run that has ended ended."""
    status = cast("Literal['done', 'failed', 'cancelled']", row.status)
    return RunResult(
        run=row.id, status=status, outputs=reader.value(row.outputs) or {}, error=row.error
    )


def view(reader: Reader, row: RunRow) -> RunView:
    """A run with its graph and its steps."""
    steps = reader.steps(row.id)
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
        started=row.started,
        ended=row.ended,
        seconds=_seconds(row),
        tokens=Tokens(prompt=row.prompt_tokens, completion=row.completion_tokens),
        graph=Plan.model_validate(reader.value(row.plan)).graph(),
        steps=[_step(reader, step, steps) for step in steps],
    )


def turns(reader: Reader, conversation: str, limit: int) -> list[Turn]:
    """The last finished runs of a conversation, oldest first."""
    sql = """SELECT id, ended, request, outputs FROM run WHERE conversation = ? AND status = 'done'
        ORDER BY id DESC LIMIT ?"""
    rows = reader.rows(sql, (conversation, limit))
    return [
        Turn(
            run=row["id"],
            at=row["ended"],
            user=reader.value(row["request"]),
            assistant=_answer(reader.value(row["outputs"])),
        )
        for row in reversed(rows)
    ]


def conversations(reader: Reader, limit: int) -> list[ConversationSummary]:
    """The conversations, the newest first."""
    rows = reader.rows(
        "SELECT id, title, updated FROM conversation ORDER BY updated DESC, id LIMIT ?", (limit,)
    )
    return [ConversationSummary(**dict(row)) for row in rows]


def _answer(outputs: dict[str, Any]) -> str:
    text = outputs.get("text")
    return text if isinstance(text, str) else canonical(outputs)


def _step(reader: Reader, row: StepRow, all_rows: list[StepRow]) -> StepView:
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
        ),
        facts=reader.value(row.facts) or {},
    )


def _seconds(row: RunRow | StepRow) -> float | None:
    return None if row.ended is None else seconds_between(row.started, row.ended)
