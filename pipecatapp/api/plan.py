"""`/api/plan`: what a workflow would do, and what is wrong in it, without running it."""

from fastapi import APIRouter, Depends

from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.runs import Document, Planned

router = APIRouter(prefix="/api/plan", dependencies=[Depends(known_caller)])


@router.post("")
async def show_plan(body: Document, parts: WithParts) -> Planned:
    """The graph, or the diagnostics: a wrong document is an answer here and no error."""
    return parts.runs.planned(body)
