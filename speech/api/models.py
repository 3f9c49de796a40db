"""`GET /v1/models`: the one model of this service, by its name in the catalogue."""

from typing import Any

from fastapi import APIRouter, Depends, Request

from speech.api.answers import known_caller

router = APIRouter(dependencies=[Depends(known_caller)])


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The gateway learns it here."""
    name = request.app.state.settings.model
    return {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "hearth"}]}
