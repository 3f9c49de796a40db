"""`/api/runs`: start, list, show and cancel runs."""

import asyncio
from typing import Annotated, Any, Literal, Self

from fastapi import Depends, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import PlainTextResponse, Response

from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import Behalf, own_run, own_runs
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.callers import owner_of
from pipecatapp.application.comparison import RunDifference
from pipecatapp.application.engine import RunView, TodoItem, json_of
from pipecatapp.application.history import RunChoices, RunList, RunQuery, choices, search
from pipecatapp.application.registry import AUTONOMY_WORKFLOW
from pipecatapp.application.runs import Document, Fork
from pipecatapp.application.steps import changes, pinned

router = api_router("/api/runs", dependencies=[Depends(known_caller), Depends(own_run)])


Via = Annotated[Literal["api", "cli", "evolution"], Header(alias="x-hearth-client")]
"""The client that sends the request; the ledger records it as the caller."""


class NewRun(Document):
    """`self_autonomy` lets a model write the workflow for the request in `inputs.text`. `files` are
    uploads of `/api/files`, by their paths in the workspace of the run.
    """

    self_autonomy: bool = False
    inputs: dict[str, Any] = Field(default_factory=dict)
    conversation: str | None = Field(None, min_length=1, max_length=200)
    answers: dict[str, Any] = Field(default_factory=dict)
    interactive: bool = True
    files: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _written_by_a_model(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("self_autonomy") is True:
            if "workflow" in value or "document" in value:
                raise ValueError("self_autonomy needs neither a workflow nor a document")
            return {**value, "workflow": AUTONOMY_WORKFLOW}
        return value


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
    query: Annotated[RunQuery, Query()], parts: WithParts, behalf: Behalf = ""
) -> RunList:
    """Runs that the query fits, the newest first."""
    return await asyncio.to_thread(search, parts.runs.engine, query, owner_of(behalf))


@router.get("/choices")
async def list_choices(parts: WithParts, behalf: Behalf = "") -> RunChoices:
    """The workflows, callers and people that a query can name."""
    return await asyncio.to_thread(choices, parts.runs.engine, owner_of(behalf))


@router.post("", status_code=201)
async def start_run(body: NewRun, parts: WithParts, via: Via = "api") -> Started:
    """Start a run; it continues if the caller disconnects."""
    run = await parts.runs.start(
        body,
        body.inputs,
        conversation=body.conversation,
        caller=via,
        answers=body.answers,
        interactive=body.interactive,
        files=body.files,
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


class ChosenRuns(BaseModel):
    """Runs to be treated together."""

    model_config = ConfigDict(extra="forbid")

    runs: list[str] = Field(min_length=1, max_length=5000)


@router.post("/delete", status_code=204)
async def delete_runs(body: ChosenRuns, parts: WithParts, behalf: Behalf = "") -> None:
    """Remove runs that have ended, all or none."""
    own_runs(parts, body.runs, owner_of(behalf))
    await parts.runs.delete(body.runs)


@router.post("/export")
async def export_runs(body: ChosenRuns, parts: WithParts, behalf: Behalf = "") -> PlainTextResponse:
    """Return runs as JSON lines for `/import`."""
    own_runs(parts, body.runs, owner_of(behalf))
    lines = await asyncio.to_thread(parts.runs.export, *body.runs)
    return PlainTextResponse(lines, media_type="application/jsonl")


@router.post("/prune")
async def prune_runs(body: Prune, parts: WithParts) -> RunIds:
    """Remove old runs. Results that other runs still use stay."""
    return RunIds(runs=await parts.runs.prune(body.days, keep=body.keep, look=body.look))


@router.post("/import", status_code=201)
async def import_runs(request: Request, parts: WithParts) -> RunIds:
    """Take in runs that were exported, all or none; the body is their JSON lines."""
    return RunIds(runs=await parts.runs.import_runs(_text(await request.body())))


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Refused(
            422, "not_imported", f"The body is not valid UTF-8: byte {error.start}."
        ) from error


@router.get("/{run}/export")
async def export_run(run: str, parts: WithParts) -> PlainTextResponse:
    """Return a run as JSON lines: the run, its steps, its events, and its answers and notes."""
    lines = await asyncio.to_thread(parts.runs.export, run)
    return PlainTextResponse(lines, media_type="application/jsonl")


@router.delete("/{run}", status_code=204)
async def delete_run(run: str, parts: WithParts) -> None:
    """Remove a run that has ended."""
    await parts.runs.delete([run])


@router.get("/{run}", response_model=RunView)
async def show_run(run: str, parts: WithParts) -> Response:
    """Its graph, its steps with what went in and out, its tokens."""
    return await _view(parts, run)


async def _view(parts: Parts, run: str) -> Response:
    """Return a run as JSON, encoded in a thread: with 10,000 steps it takes a second."""
    body = await asyncio.to_thread(lambda: json_of(parts.runs.view(run)))
    return Response(body, media_type="application/json")


@router.get("/{run}/compare")
async def compare_runs(
    run: str, other: Annotated[str, Query(alias="with", max_length=200)], parts: WithParts
) -> RunDifference:
    """Return the differences to another run: inputs, outputs, and each step that differs."""
    return await asyncio.to_thread(parts.runs.compare, run, other)


@router.get("/{run}/changes")
async def changes_of_run(
    run: str, parts: WithParts, path: Annotated[str | None, Query(max_length=1000)] = None
) -> PlainTextResponse:
    """Return the changes of a step, or of the whole run, in the workspace, as a unified diff."""
    return PlainTextResponse(await changes(parts.runs.engine, run, path), media_type="text/x-diff")


@router.post("/{run}/cancel", response_model=RunView)
async def cancel_run(run: str, parts: WithParts) -> Response:
    """Stop a run. One that has ended stays as it ended."""
    await parts.runs.cancel(run)
    return await _view(parts, run)


@router.post("/{run}/answer", response_model=RunView)
async def answer_run(run: str, body: Answer, parts: WithParts, via: Via = "api") -> Response:
    """Answer the question of a waiting step; the run continues."""
    await parts.runs.answer(run, body.path, body.value, by=via)
    return await _view(parts, run)


@router.post("/{run}/notes", status_code=204)
async def note_run(run: str, body: NewNote, parts: WithParts) -> None:
    """Send a note to a run that has not ended; every later model call of the run receives it."""
    await parts.runs.note(run, body.text, by=body.by)


class TodoList(BaseModel):
    items: list[TodoItem]


class TodoChange(BaseModel):
    """A change of the to-do list: `strike` names an item that has not started; `add` is a new
    text."""

    model_config = ConfigDict(extra="forbid")

    strike: str | None = Field(None, min_length=1, max_length=1000)
    add: str | None = Field(None, min_length=1, max_length=2000)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.strike is None) == (self.add is None):
            raise ValueError("give either `strike` or `add`")
        return self


@router.get("/{run}/todo")
async def list_todo(run: str, parts: WithParts) -> TodoList:
    """The steps of the plans of a run, and items that were added to them."""
    return TodoList(items=await asyncio.to_thread(parts.runs.todo, run))


@router.post("/{run}/todo")
async def change_todo(run: str, body: TodoChange, parts: WithParts, via: Via = "api") -> TodoList:
    """Remove an item, or add one, while the run continues."""
    await parts.runs.change_todo(run, strike=body.strike, add=body.add, by=via)
    return TodoList(items=await asyncio.to_thread(parts.runs.todo, run))


@router.post("/{run}/again", status_code=201)
async def run_again(run: str, parts: WithParts, via: Via = "api") -> Started:
    """Start the same with the same inputs once more; nothing is taken over."""
    return Started(run=await parts.runs.again(run, caller=via))


@router.post("/{run}/fork", status_code=201)
async def fork_run(run: str, body: Fork, parts: WithParts, via: Via = "api") -> Started:
    """Run it again, edited or from a step on; what stays the same is taken over."""
    forked = await parts.runs.fork(run, body, caller=via)
    return Started(run=forked)


@router.get("/{run}/pin")
async def pin_step(
    run: str, path: Annotated[str, Query(max_length=1000)], parts: WithParts
) -> PlainTextResponse:
    """Return a layer, as YAML, that replaces the call of a step by its output."""
    return PlainTextResponse(pinned(parts.runs.engine, run, path), media_type="application/yaml")
