"""`/api/tools`: what nodes can use, with the JSON Schemas that forms are made of."""

from fastapi import Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.registry import ToolSummary, tool_summaries, tool_summary

router = api_router("/api/tools", dependencies=[Depends(known_caller)])


class ToolList(BaseModel):
    tools: list[ToolSummary]


@router.get("")
async def list_tools(parts: WithParts) -> ToolList:
    """All that a node can use, by name; a workflow is `workflow/<id>`."""
    return ToolList(tools=tool_summaries(parts.runs))


@router.get("/{name:path}")
async def show_tool(name: str, parts: WithParts) -> ToolSummary:
    """One tool; `POST /api/runs` with its name as `tool` calls it."""
    return tool_summary(parts.runs.tool(name))
