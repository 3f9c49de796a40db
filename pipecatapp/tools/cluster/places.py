"""Inventory of an instance: its machines, its services, its gateway."""

from datetime import datetime
from typing import Protocol

from pydantic import BaseModel, Field

from hearth.service.host import HostStats


class ServiceHealth(BaseModel):
    """One service: where it is, whether it works, since when, and if not, why."""

    name: str
    url: str
    machine: str
    healthy: bool
    since: datetime = Field(description="When it became healthy, or was first seen not to be.")
    detail: str = Field(description="Why it is not healthy; empty when it is.")


class Machine(BaseModel):
    """One machine, with its services."""

    name: str
    address: str = Field(default="", description="Where it is reached; empty if unknown.")
    healthy: bool
    state: str = Field(default="ready", description="In one word: ready, draining, down …")
    detail: str = Field(default="", description="Why it is not ready; empty when it is.")
    cores: int | None = Field(default=None, description="Processor cores; null if unknown.")
    memory_mb: int | None = Field(default=None, description="Memory in MB; null if unknown.")
    services: list[str] = Field(description="The services on it.")


class NotRestarted(Exception):
    """A service was not restarted from here; the message is one sentence.

    `command` is what a person can type instead; empty where nothing is known.
    """

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class Places(Protocol):
    """Addresses of services: from the settings on one machine, from Consul in a cluster."""

    def gateway(self) -> str | None:
        """The gateway's OpenAI address, which ends in `/v1`; None while none is known."""

    def links(self) -> dict[str, str]:
        """Pages of other programs by their names: Grafana, Nomad, Consul."""

    def unknown(self) -> list[str]:
        """Return sentences that name unavailable facts, with the reasons."""

    async def services(self) -> list[ServiceHealth]: ...

    async def machines(self, services: list[ServiceHealth]) -> list[Machine]:
        """Return the machines, each with those of these services that run on it."""
        ...

    async def measure(self) -> dict[str, HostStats]:
        """Return the measurements of each machine by its name."""
        ...

    async def restart(self, service: str, machine: str) -> None:
        """Stop a service of a machine and start it again. Raises `NotRestarted`."""
        ...


def machines_of(services: list[ServiceHealth]) -> list[Machine]:
    """Return the machines of the services, in the order of the services."""
    found: dict[str, list[ServiceHealth]] = {}
    for service in services:
        found.setdefault(service.machine, []).append(service)
    return [_machine(name, there) for name, there in found.items() if name]


def _machine(name: str, services: list[ServiceHealth]) -> Machine:
    ill = [service.name for service in services if not service.healthy]
    return Machine(
        name=name,
        services=list(dict.fromkeys(service.name for service in services)),
        healthy=not ill,
        state="needs attention" if ill else "ready",
        detail=f"not healthy: {', '.join(ill)}" if ill else "",
    )
