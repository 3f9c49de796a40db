"""`GET /v1/models`: the workflows that can be talked to."""

from typing import Any

from fastapi import Depends

from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.offers import offered, scope_of, workflow_for
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.engine import Workflow

router = api_router("/v1/models", dependencies=[Depends(known_caller)])


@router.get("")
async def list_models(parts: WithParts) -> dict[str, Any]:
    found = offered(parts.runs.engine.workflows)
    return {"object": "list", "data": [_model(name, one, parts) for name, one in found.items()]}


@router.get("/{name:path}")
async def show_model(name: str, parts: WithParts) -> dict[str, Any]:
    return _model(name, workflow_for(parts.runs.engine.workflows, name), parts)


def _model(name: str, workflow: Workflow, parts: Parts) -> dict[str, Any]:
    """Describe a model; `scope` is the scope that the gateway requires of a key for it."""
    scope = scope_of(parts.runs.engine, workflow.id)
    return {"id": name, "object": "model", "created": 0, "owned_by": "hearth", "scope": scope}
