"""The state of the whole: machines, services, experts."""

import asyncio

from pydantic import BaseModel, Field

from hearth.service.names import MOE_GATEWAY
from pipecatapp.tools.cluster.directory import Directory, ExpertHealth
from pipecatapp.tools.cluster.places import Machine, ServiceHealth
from pipecatapp.workflow import Context, tool


class ClusterStatus(BaseModel):
    """Everything there is, from the machines up."""

    healthy: bool = Field(description="Whether every machine, service and expert works.")
    machines: list[Machine] = Field(description="The machines and the services on each.")
    services: list[ServiceHealth] = Field(description="Each with since when, and why not.")
    experts: list[ExpertHealth] = Field(description="Each with the model that really runs.")
    unknown: list[str] = Field(default=[], description="Facts that are not available now, and why.")


@tool("cluster.status", effect="read", version=1)
async def status(ctx: Context) -> ClusterStatus:
    """Tell which machines, services and experts there are, which work, since when, and why not."""
    return await whole(ctx.service(Directory))


async def whole(directory: Directory) -> ClusterStatus:
    """Query all services concurrently: a silent service delays the result by two seconds at
    most."""
    places = directory.places
    services, experts = await asyncio.gather(places.services(), directory.experts())
    machines = await places.machines(services)
    services += directory.own()
    parts: list[Machine | ServiceHealth | ExpertHealth] = [*machines, *services, *experts]
    return ClusterStatus(
        healthy=bool(parts) and all(part.healthy for part in parts),
        machines=machines,
        services=services,
        experts=experts,
        unknown=[*places.unknown(), *_unlisted(directory, services)],
    )


def _unlisted(directory: Directory, services: list[ServiceHealth]) -> list[str]:
    """State that the experts cannot be listed; a gateway that is down is reported as a service."""
    gateway_down = any(one.name == MOE_GATEWAY and not one.healthy for one in services)
    if directory.experts_known or gateway_down:
        return []
    return ["The gateway does not list its experts."]
