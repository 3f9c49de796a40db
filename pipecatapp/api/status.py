"""`/api/status`: the machines, services and experts of this instance, and how busy the agent is."""

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from hearth.service.version import hearth_version
from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.schedules.store import Schedule
from pipecatapp.tools.cluster.status import ClusterStatus, whole

router = APIRouter(prefix="/api/status", dependencies=[Depends(known_caller)])


class AgentStatus(BaseModel):
    runs_running: int


class Status(ClusterStatus):
    """What `cluster.status` tells, with what only a person at the page needs."""

    version: str
    agent: AgentStatus
    links: dict[str, str]
    schedules: list[Schedule]
    """What starts by itself, the next one first."""


@router.get("")
async def show_status(parts: WithParts) -> Status:
    found = await whole(parts.directory)
    return Status(
        **found.model_dump(),
        version=hearth_version(),
        agent=AgentStatus(runs_running=parts.runs_running),
        links=parts.directory.places.links(),
        schedules=parts.schedules.all(),
    )
