"""The state of the whole: machines, services, experts."""

from pydantic import BaseModel, Field

from pipecatapp.tools.cluster.directory import Directory, ExpertHealth, ServiceHealth
from pipecatapp.workflow import Context, tool


class Machine(BaseModel):
    name: str
    services: list[str]
    healthy: bool


class ClusterStatus(BaseModel):
    """Everything there is, from the machines up."""

    healthy: bool = Field(description="Whether every service and every expert works.")
    machines: list[Machine] = Field(description="The machines, and what stands on each.")
    services: list[ServiceHealth] = Field(description="Each with since when, and why not.")
    experts: list[ExpertHealth] = Field(description="Each with the model that really runs.")


@tool("cluster.status", effect="read", version=1)
async def status(ctx: Context) -> ClusterStatus:
    """Tell which machines, services and experts there are, which work, since when, and why not."""
    directory = ctx.service(Directory)
    services, experts = await directory.services(), await directory.experts()
    parts: list[ServiceHealth | ExpertHealth] = [*services, *experts]
    return ClusterStatus(
        healthy=bool(parts) and all(part.healthy for part in parts),
        machines=machines_of(services),
        services=services,
        experts=experts,
    )


def machines_of(services: list[ServiceHealth]) -> list[Machine]:
    """The machines that the services stand on, in the order of the services."""
    found: dict[str, list[ServiceHealth]] = {}
    for service in services:
        found.setdefault(service.machine, []).append(service)
    return [
        Machine(
            name=name,
            services=[service.name for service in there],
            healthy=all(service.healthy for service in there),
        )
        for name, there in found.items()
    ]
