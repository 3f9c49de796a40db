"""Find what is down in a cluster status, and list each cause once.

One model server that stopped shows up three times: as its service, as its expert, and as the
gateway that has no expert left.
"""

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import BaseModel

from hearth.service.names import MOE_GATEWAY, expert_service
from pipecatapp.tools.cluster.places import ServiceHealth
from pipecatapp.tools.cluster.status import ClusterStatus

NO_EXPERT: Final = "experts: "
"""Prefix of the gateway's reason if none of its experts is ready."""
DERIVED: Final = "needs attention"
"""State of a machine that is judged by its services only."""


class Cause(BaseModel):
    """One machine or service that is down; `name` is the expert's for a model server."""

    kind: Literal["machine", "service"]
    name: str


def causes(status: ClusterStatus) -> list[Cause]:
    """List the machines and services that are down, without what is down because of them."""
    machines = [one.name for one in status.machines if not one.healthy and one.state != DERIVED]
    services = dict.fromkeys(_services(status, frozenset(machines)))
    return [Cause(kind="machine", name=name) for name in machines] + [
        Cause(kind="service", name=name) for name in services
    ]


def _services(status: ClusterStatus, lost: frozenset[str]) -> Iterator[str]:
    """Yield the names of services and experts that are down while their machine is not `lost`."""
    experts = [one for one in status.experts if not one.healthy]
    of_service = {expert_service(one.name): one.name for one in status.experts}
    for service in status.services:
        if service.healthy or service.machine in lost or (experts and _lacks_experts(service)):
            continue
        yield of_service.get(service.name, service.name)
    for expert in experts:
        if not (expert.instances and all(one.machine in lost for one in expert.instances)):
            yield expert.name


def _lacks_experts(service: ServiceHealth) -> bool:
    return service.name == MOE_GATEWAY and NO_EXPERT in service.detail
