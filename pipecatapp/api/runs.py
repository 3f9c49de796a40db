"""`/api/runs`: start runs, list them, look at one, cancel one."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.runs import Document, RunList
from pipecatapp.workflow import RunView

router = APIRouter(prefix="/api/runs", dependencies=[Depends(known_caller)])


class NewRun(Document):
    inputs: dict[str, Any] = Field(default_factory=dict)
    conversation: str | None = Field(None, min_length=1, max_length=200)


class Started(BaseModel):
    run: str


@router.get("")
async def list_runs(
    parts: WithParts,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    before: Annotated[str | None, Query(max_length=200)] = None,
) -> RunList:
    """The last runs, newest first."""
    return parts.runs.page(limit=limit, before=before)


@router.post("", status_code=201)
async def start_run(body: NewRun, parts: WithParts) -> Started:
    """Start a run; it goes on when the caller hangs up."""
    run = await parts.start(body, body.inputs, conversation=body.conversation, caller="api")
    return Started(run=run)


@router.get("/{run}")
async def show_run(run: str, parts: WithParts) -> RunView:
    """Its graph, its steps with what went in and out, its tokens."""
    return parts.runs.view(run)


@router.post("/{run}/cancel")
async def cancel_run(run: str, parts: WithParts) -> RunView:
    """Stop a run. One that has ended stays as it ended."""
    return await parts.runs.cancel(run)
