"""`GET /v1/models`: the workflows that can be talked to."""

from typing import Any

from fastapi import APIRouter, Depends

from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.offers import offered, workflow_for
from pipecatapp.api.parts import WithParts

router = APIRouter(prefix="/v1/models", dependencies=[Depends(known_caller)])


@router.get("")
async def list_models(parts: WithParts) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [_model(name) for name in offered(parts.runs.engine.workflows)],
    }


@router.get("/{name:path}")
async def show_model(name: str, parts: WithParts) -> dict[str, Any]:
    workflow_for(parts.runs.engine.workflows, name)
    return _model(name)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hearth"}
