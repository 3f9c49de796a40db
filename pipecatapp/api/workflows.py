"""`/api/workflows`: the workflows that an instance knows."""

from typing import Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.offers import model_of
from pipecatapp.api.parts import WithParts
from pipecatapp.workflow import Graph, Workflow

router = APIRouter(prefix="/api/workflows", dependencies=[Depends(known_caller)])


class WorkflowCard(BaseModel):
    """What one needs to start it: `inputs` and `outputs` are JSON Schemas; `model` is the name
    under which OpenAI clients reach it, null when it is no conversation.
    """

    id: str
    version: int
    about: str
    tags: list[str]
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    model: str | None


class WorkflowPage(WorkflowCard):
    graph: Graph


class WorkflowList(BaseModel):
    workflows: list[WorkflowCard]


@router.get("")
async def list_workflows(parts: WithParts) -> WorkflowList:
    """All that can be started by name."""
    return WorkflowList(workflows=[card(one) for one in parts.runs.engine.workflows.values()])


@router.get("/{name}")
async def show_workflow(name: str, parts: WithParts) -> WorkflowPage:
    """One, with its graph."""
    workflow = parts.runs.known(name)
    graph = parts.runs.engine.plan(workflow).graph()
    return WorkflowPage(**card(workflow).model_dump(), graph=graph)


def card(workflow: Workflow) -> WorkflowCard:
    return WorkflowCard(
        id=workflow.id,
        version=workflow.version,
        about=workflow.about,
        tags=list(workflow.tags),
        inputs=workflow.input_schema(),
        outputs=workflow.output_schema(),
        model=model_of(workflow),
    )
