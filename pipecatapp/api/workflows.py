"""`/api/workflows`: the workflows of an instance."""

from fastapi import Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.registry import (
    WorkflowDetail,
    WorkflowSummary,
    workflow_detail,
    workflow_summaries,
)

router = api_router("/api/workflows", dependencies=[Depends(known_caller)])


class WorkflowList(BaseModel):
    workflows: list[WorkflowSummary]


@router.get("")
async def list_workflows(parts: WithParts) -> WorkflowList:
    """All that can be started by name."""
    return WorkflowList(workflows=workflow_summaries(parts.runs.engine))


@router.get("/{name}")
async def show_workflow(name: str, parts: WithParts) -> WorkflowDetail:
    """One, with its graph."""
    return workflow_detail(parts.runs.engine, parts.runs.known(name))
