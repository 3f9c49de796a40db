"""`/api/tools`: what nodes can use, with the JSON Schemas that forms are made of."""

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.catalogue import ToolCard, tool_cards

router = APIRouter(prefix="/api/tools", dependencies=[Depends(known_caller)])


class ToolList(BaseModel):
    tools: list[ToolCard]


@router.get("")
async def list_tools(parts: WithParts) -> ToolList:
    """All that a node can use, by name; a workflow is `workflow/<id>`."""
    return ToolList(tools=tool_cards(parts.runs))
