"""`/api/runs`: start runs, list them, look at one, cancel one."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse

from pipecatapp.api.access import known_caller
from pipecatapp.api.errors import Refused
from pipecatapp.api.parts import WithParts
from pipecatapp.library.runs.comparing import RunDifference
from pipecatapp.library.runs.steps import changes, pinned
from pipecatapp.runs import Document, Fork, RunList
from pipecatapp.workflow import RunView, Status

router = APIRouter(prefix="/api/runs", dependencies=[Depends(known_caller)])


class NewRun(Document):
    inputs: dict[str, Any] = Field(default_factory=dict)
    conversation: str | None = Field(None, min_length=1, max_length=200)
    answers: dict[str, Any] = Field(default_factory=dict)
    interactive: bool = True


class Answer(BaseModel):
    """`path` is the step that waits."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1, max_length=1000)
    value: Any


class NewNote(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=4000)
    by: str = Field("", max_length=100)


class Started(BaseModel):
    run: str


@router.get("")
async def list_runs(
    parts: WithParts,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[str | None, Query(max_length=200)] = None,
    workflow: Annotated[str | None, Query(max_length=200)] = None,
    status: Status | None = None,
) -> RunList:
    """The last runs, newest first; of one workflow, or of one status, where they are named."""
    return parts.runs.page(limit=limit, before=before, workflow=workflow, status=status)


@router.post("", status_code=201)
async def start_run(body: NewRun, parts: WithParts) -> Started:
    """Start a run; it goes on when the caller hangs up."""
    run = await parts.start(
        body,
        body.inputs,
        conversation=body.conversation,
        caller="api",
        answers=body.answers,
        interactive=body.interactive,
    )
    return Started(run=run)


class Prune(BaseModel):
    """Runs that ended more than `days` ago, but the `keep` newest; with `look` they stay."""

    model_config = ConfigDict(extra="forbid")

    days: float = Field(ge=0, le=36500)
    keep: int = Field(100, ge=0, le=10**9)
    look: bool = False


class RunIds(BaseModel):
    runs: list[str]


@router.post("/prune")
async def prune_runs(body: Prune, parts: WithParts) -> RunIds:
    """Remove old runs; what other runs still use of them stays."""
    return RunIds(runs=await parts.runs.prune(body.days, keep=body.keep, look=body.look))


@router.post("/import", status_code=201)
async def import_runs(request: Request, parts: WithParts) -> RunIds:
    """Take in runs that were exported, all or none; the body is their JSON lines."""
    return RunIds(runs=await parts.runs.take_in(_text(await request.body())))


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refused(422, "not_imported", f"That is no UTF-8 text: byte {error.start}.") from error


@router.get("/{run}/export")
async def export_run(run: str, parts: WithParts) -> PlainTextResponse:
    """A run as JSON lines: itself, its steps, its events, what came to it."""
    return PlainTextResponse(parts.runs.export(run), media_type="application/jsonl")


@router.get("/{run}")
async def show_run(run: str, parts: WithParts) -> RunView:
    """Its graph, its steps with what went in and out, its tokens."""
    return parts.runs.view(run)


@router.get("/{run}/compare")
async def compare_runs(
    run: str, other: Annotated[str, Query(alias="with", max_length=200)], parts: WithParts
) -> RunDifference:
    """What another run did otherwise: inputs, outputs, and each step that differs."""
    return parts.runs.compare(run, other)


@router.get("/{run}/changes")
async def changes_of_run(
    run: str, parts: WithParts, path: Annotated[str | None, Query(max_length=1000)] = None
) -> PlainTextResponse:
    """What a step, or the whole run, changed in the run's workspace, as a unified diff."""
    return PlainTextResponse(await changes(parts.runs.engine, run, path), media_type="text/x-diff")


@router.post("/{run}/cancel")
async def cancel_run(run: str, parts: WithParts) -> RunView:
    """Stop a run. One that has ended stays as it ended."""
    return await parts.runs.cancel(run)


@router.post("/{run}/answer")
async def answer_run(run: str, body: Answer, parts: WithParts) -> RunView:
    """Answer the question of a step that waits; the run goes on."""
    return await parts.runs.answer(run, body.path, body.value, by="api")


@router.post("/{run}/notes", status_code=204)
async def note_run(run: str, body: NewNote, parts: WithParts) -> None:
    """Tell a run that has not ended something; every model asked from then on is told."""
    await parts.runs.note(run, body.text, by=body.by)


@router.post("/{run}/fork", status_code=201)
async def fork_run(run: str, body: Fork, parts: WithParts) -> Started:
    """Run it again, edited or from a step on; what stays the same is taken over."""
    forked = await parts.runs.fork(run, body, caller="api")
    parts.watch(forked)
    return Started(run=forked)


@router.get("/{run}/pin")
async def pin_step(
    run: str, path: Annotated[str, Query(max_length=1000)], parts: WithParts
) -> PlainTextResponse:
    """A layer, as YAML, in which the output of a step stands instead of its call."""
    return PlainTextResponse(pinned(parts.runs.engine, run, path), media_type="application/yaml")
