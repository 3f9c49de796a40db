"""`/api/triggers`: workflows that start by a webhook or a file; `/hooks`: the webhooks."""

import math
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel
from starlette.responses import Response

from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.errors import ERRORS
from pipecatapp.application.triggers.definition import ID, TriggerSettings
from pipecatapp.application.triggers.service import (
    Delivery,
    MadeTrigger,
    StartedRun,
    TooManyDeliveries,
    Trigger,
)

LARGEST: Final = 1 << 20
"""Bytes of the body of a webhook."""

router = api_router("/api/triggers", dependencies=[Depends(known_caller)])
hooks = APIRouter(prefix="/hooks")
"""Without a key: each delivery is signed for its trigger alone."""

Id = Annotated[str, Path(pattern=ID, max_length=100)]


class TriggerList(BaseModel):
    triggers: list[Trigger]


@router.get("")
async def list_triggers(parts: WithParts) -> TriggerList:
    """Return every trigger by name, with its last run."""
    return TriggerList(triggers=parts.triggers.all())


@router.get("/{id}")
async def show_trigger(id: Id, parts: WithParts) -> Trigger:
    """Return one trigger, with its last run."""
    return parts.triggers.get(id)


@router.put("/{id}")
async def put_trigger(id: Id, body: TriggerSettings, parts: WithParts) -> MadeTrigger:
    """Store a trigger. The response shows the secret that was made for it, only this time."""
    return await parts.triggers.put(id, body)


@router.delete("/{id}", status_code=204)
async def remove_trigger(id: Id, parts: WithParts) -> None:
    """Remove a trigger and its secret; its runs stay."""
    parts.triggers.remove(id)


@router.post("/{id}/pause")
async def pause_trigger(id: Id, parts: WithParts) -> Trigger:
    """Start no more runs until it is resumed."""
    return await parts.triggers.pause(id, paused=True)


@router.post("/{id}/resume")
async def resume_trigger(id: Id, parts: WithParts) -> Trigger:
    """Start runs again."""
    return await parts.triggers.pause(id, paused=False)


@hooks.post("/{id}", status_code=202)
async def receive_delivery(
    id: Id, request: Request, response: Response, parts: WithParts
) -> StartedRun:
    """Start the run of a signed delivery; 200 if a delivery with the same id has started it."""
    body = bytearray()
    async for data in request.stream():
        body += data
        if len(body) > LARGEST:
            raise Refused(413, "body_too_large", f"A webhook may have {LARGEST} bytes.")
    headers = {name.lower(): value for name, value in request.headers.items()}
    delivery = Delivery(headers, dict(request.query_params), bytes(body))
    try:
        started = await parts.triggers.receive(id, delivery)
    except TooManyDeliveries as error:
        known = ERRORS[TooManyDeliveries]
        retry = {"retry-after": str(math.ceil(error.seconds))}
        raise Refused(known.status, known.code, str(error), headers=retry) from error
    if started.repeated:
        response.status_code = 200
    return started
