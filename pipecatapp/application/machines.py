"""The machines of an instance: what is measured on each, the speed of its experts, its services."""

import asyncio
from datetime import datetime

from pydantic import BaseModel

from hearth.service.host import HostStats
from pipecatapp.tools.cluster.directory import Directory, ExpertHealth
from pipecatapp.tools.cluster.places import Machine, NotRestarted, ServiceHealth

__all__ = ["MachineList", "NotRestarted", "machines"]


class ServiceView(BaseModel):
    """One service on a machine."""

    name: str
    healthy: bool
    since: datetime
    detail: str


class Speed(BaseModel):
    """How fast an expert on a machine wrote its last streams; null before the first one."""

    expert: str
    model: str | None
    tokens_per_second: float | None


class MachineView(BaseModel):
    """One machine. `stats` is null where it is not measured."""

    name: str
    address: str
    healthy: bool
    state: str
    detail: str
    cores: int | None
    stats: HostStats | None
    speeds: list[Speed]
    services: list[ServiceView]


class MachineList(BaseModel):
    """The machines; `unknown` are sentences on what cannot be queried now."""

    machines: list[MachineView]
    unknown: list[str]


async def machines(directory: Directory) -> MachineList:
    """Query services, experts and measurements concurrently: a silent service costs two seconds."""
    places = directory.places
    services, experts, stats = await asyncio.gather(
        places.services(), directory.experts(), places.measure()
    )
    found = await places.machines(services)
    views = [_view(one, services, experts, stats, alone=len(found) == 1) for one in found]
    return MachineList(machines=views, unknown=places.unknown())


def _view(
    machine: Machine,
    services: list[ServiceHealth],
    experts: list[ExpertHealth],
    stats: dict[str, HostStats],
    *,
    alone: bool,
) -> MachineView:
    """`alone`: servers of which the gateway names no machine are on this one."""
    return MachineView(
        **machine.model_dump(exclude={"memory_mb", "services"}),
        stats=stats.get(machine.name),
        speeds=[
            Speed(expert=one.name, model=place.model, tokens_per_second=place.tokens_per_second)
            for one in experts
            for place in one.instances
            if place.healthy and (place.machine == machine.name or (alone and not place.machine))
        ],
        services=[
            ServiceView(**one.model_dump(include={*ServiceView.model_fields}))
            for one in services
            if one.machine == machine.name
        ],
    )
