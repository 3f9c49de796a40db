"""`/api/machines`: what each machine does, and a restart of its services."""

import asyncio

import structlog
from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field

from hearth.service.http_errors import Refused
from hearth.service.names import PIPECATAPP
from pipecatapp.api.owners import administrator
from pipecatapp.api.parts import Parts, WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.machines import MachineList, NotRestarted, machines

log = structlog.get_logger()

router = api_router("/api/machines", dependencies=[Depends(administrator)])

ANSWER_SECONDS = 0.3
"""How long the answer may take to leave before this process itself is stopped."""


class Restart(BaseModel):
    """A service as `GET /api/machines` lists it."""

    model_config = ConfigDict(extra="forbid")

    service: str = Field(min_length=1, max_length=200)
    machine: str = Field(min_length=1, max_length=200)


@router.get("")
async def list_machines(parts: WithParts) -> MachineList:
    """Measure every machine and list its services."""
    return await machines(parts.directory)


@router.post("/restart", status_code=202)
async def restart(wanted: Restart, parts: WithParts) -> None:
    """Stop a service and start it again; the status tells when it is healthy.

    Where that cannot be done from here, the answer is 409 with the `command` to type.
    """
    log.info("restart_requested", name=wanted.service, machine=wanted.machine)
    if wanted.service == PIPECATAPP:
        parts.spawn(_restart_this(parts, wanted))
        return
    try:
        await parts.directory.places.restart(wanted.service, wanted.machine)
    except NotRestarted as error:
        details = {"command": error.command}
        raise Refused(409, "not_restarted", str(error), details=details) from error


async def _restart_this(parts: Parts, wanted: Restart) -> None:
    await asyncio.sleep(ANSWER_SECONDS)
    try:
        await parts.directory.places.restart(wanted.service, wanted.machine)
    except NotRestarted as error:
        log.warning("not_restarted", name=wanted.service, reason=str(error))
