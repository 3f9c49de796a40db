"""`/api/tasks`: the library of tasks."""

from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.library.library import Id, WithLibrary
from pipecatapp.api.library.schedules import StartedRun
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.library.service import TaskDetail, TaskSummary, Variant
from pipecatapp.application.runs import Document

router = api_router("/api/tasks", dependencies=[Depends(known_caller)])


class TaskList(BaseModel):
    """`total`: how many tasks there are without the limit."""

    tasks: list[TaskSummary]
    total: int


class NewTask(BaseModel):
    """A workflow with tags."""

    model_config = ConfigDict(extra="forbid")

    document: str = Field(min_length=1)
    file: str = Field("task.yaml", max_length=1000)


class TaskInputs(BaseModel):
    model_config = ConfigDict(extra="forbid")

    inputs: dict[str, Any] = {}


@router.get("")
async def list_tasks(
    library: WithLibrary,
    q: Annotated[str, Query(max_length=1000)] = "",
    tag: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> TaskList:
    """Those with all of the tags, and one of the words of `q`, the best first."""
    found, total = library.tasks(q, tag, limit)
    return TaskList(tasks=found, total=total)


@router.post("", status_code=201)
async def keep_task(body: NewTask, library: WithLibrary) -> TaskSummary:
    """Store a workflow as a task: a new version, unless it equals the last one."""
    return await library.keep_task(body.document, file=body.file)


@router.get("/{id}")
async def show_task(
    id: Id, library: WithLibrary, version: Annotated[int | None, Query(ge=1)] = None
) -> TaskDetail:
    """One version with its document; the newest unless another is named."""
    return library.task(id, version)


@router.delete("/{id}", status_code=204)
async def remove_task(id: Id, library: WithLibrary) -> None:
    """Forget it with all its versions; its runs stay."""
    await library.remove_task(id)


@router.post("/{id}/variants", status_code=201)
async def keep_variant(id: Id, body: Variant, library: WithLibrary) -> TaskSummary:
    """Keep a variant of it: the same with other tags and fields."""
    return await library.variant(id, body)


@router.post("/{id}/runs", status_code=201)
async def run_task(id: Id, body: TaskInputs, library: WithLibrary, parts: WithParts) -> StartedRun:
    """Start it in the conversation of the task, which all its runs belong to."""
    library.task(id)
    conversation, document = f"task/{id}", Document(workflow=id)
    run = await parts.runs.start(document, body.inputs, conversation=conversation, caller="api")
    return StartedRun(run=run)
