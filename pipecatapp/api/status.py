"""`/api/status`: the services and experts of this instance, and how busy the agent is."""

import asyncio

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from hearth.service.version import hearth_version
from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.tools.cluster.directory import ExpertHealth, ServiceHealth

router = APIRouter(prefix="/api/status", dependencies=[Depends(known_caller)])


class AgentStatus(BaseModel):
    runs_running: int


class Status(BaseModel):
    version: str
    services: list[ServiceHealth]
    experts: list[ExpertHealth]
    agent: AgentStatus


@router.get("")
async def show_status(parts: WithParts) -> Status:
    """Asks all of them at the same time; a silent one costs two seconds and no more."""
    services, experts = await asyncio.gather(parts.directory.services(), parts.directory.experts())
    return Status(
        version=hearth_version(),
        services=services,
        experts=experts,
        agent=AgentStatus(runs_running=parts.runs_running),
    )
