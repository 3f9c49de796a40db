"""`/api/status`: the machines, services and experts of this instance, and how busy the agent is."""

import asyncio

from fastapi import Depends
from pydantic import BaseModel

from hearth.service.version import hearth_version
from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.schedules.store import Schedule
from pipecatapp.application.status import (
    Cause,
    ClusterStatus,
    ProgramStatus,
    causes,
    programs,
    whole,
)

router = api_router("/api/status", dependencies=[Depends(known_caller)])


class AgentStatus(BaseModel):
    runs_running: int


class Status(ClusterStatus):
    """The result of `cluster.status`, with fields for the web page."""

    version: str
    down: list[Cause]
    """Failures that need attention, each cause once."""
    agent: AgentStatus
    programs: ProgramStatus
    links: dict[str, str]
    schedules: list[Schedule]
    """Schedules, the next start first."""


@router.get("")
async def show_status(parts: WithParts) -> Status:
    found = await whole(parts.directory)
    return Status(
        **found.model_dump(),
        version=hearth_version(),
        down=causes(found),
        agent=AgentStatus(runs_running=parts.runs_running),
        programs=await asyncio.to_thread(programs),
        links=parts.directory.places.links(),
        schedules=parts.schedules.all(),
    )
