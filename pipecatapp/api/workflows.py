"""`/api/workflows`: the workflows that an instance knows."""

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.catalogue import WorkflowCard, WorkflowPage, catalogue, page

router = APIRouter(prefix="/api/workflows", dependencies=[Depends(known_caller)])


class WorkflowList(BaseModel):
    workflows: list[WorkflowCard]


@router.get("")
async def list_workflows(parts: WithParts) -> WorkflowList:
    """All that can be started by name."""
    return WorkflowList(workflows=catalogue(parts.runs.engine))


@router.get("/{name}")
async def show_workflow(name: str, parts: WithParts) -> WorkflowPage:
    """One, with its graph."""
    return page(parts.runs.engine, parts.runs.known(name))
