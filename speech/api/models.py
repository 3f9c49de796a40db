"""`GET /v1/models`: the one model of this service, by its name in the catalogue."""

from typing import Any

from fastapi import APIRouter, Depends, Request

from hearth.service.http_errors import Refused
from speech.api.answers import known_caller

router = APIRouter(dependencies=[Depends(known_caller)])


@router.get("/v1/models")
async def list_models(request: Request) -> dict[str, Any]:
    """List the one model; the gateway reads its name here."""
    return {"object": "list", "data": [_model(request)]}


@router.get("/v1/models/{name:path}")
async def show_model(name: str, request: Request) -> dict[str, Any]:
    """Show the one model; raises `Refused` (404) for any other name."""
    model = _model(request)
    if name != model["id"]:
        message = f"There is no model {name[:100]!r} here, only {model['id']}."
        raise Refused(404, "model_not_found", message, param="model")
    return model


def _model(request: Request) -> dict[str, Any]:
    return {"id": request.app.state.settings.model, "object": "model", "owned_by": "hearth"}
