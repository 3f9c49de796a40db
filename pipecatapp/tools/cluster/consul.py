"""The services and machines of a cluster, from Consul and Nomad."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from hearth.cluster.watch import ServiceInstance, Services, ServiceWatch
from hearth.service.host import HostStats
from hearth.service.names import GRAFANA, MOE_GATEWAY
from pipecatapp.tools.cluster.nomad import NomadView
from pipecatapp.tools.cluster.places import Machine, NotRestarted, ServiceHealth, machines_of

INTERNAL = frozenset(("rpc", "serf"))
NOMAD = frozenset(("nomad", "nomad-client"))
ALLOCATION = re.compile(r"_nomad-(?:task|group)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-")
"""The id of a service in Consul that Nomad registers names its allocation."""
CONSUL = "consul"
"""It is in its own catalogue with the port on which its servers speak to each other."""


class ConsulPlaces:
    """Services from the watch, with the machines and unplaced jobs of Nomad.

    `links` are pages that are not in Consul. Register `changed` with the watch: it records since
    when each service has its state.
    """

    def __init__(
        self,
        nomad: NomadView | None = None,
        links: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.watch: ServiceWatch | None = None
        self._nomad, self._links, self._clock = nomad, dict(links or {}), clock
        self._since: dict[tuple[str, str], tuple[bool, datetime]] = {}

    def changed(self, services: Services) -> None:
        """Record when each instance became healthy or unhealthy; removed instances are
        forgotten."""
        before, now = self._since, self._clock()
        self._since = {}
        for one in _all(services):
            which, well = (one.node, one.id), one.state != "critical"
            seen = before.get(which)
            self._since[which] = seen if seen and seen[0] == well else (well, now)

    def gateway(self) -> str | None:
        """Of the first gateway that is healthy."""
        ready = [one for one in self._known().get(MOE_GATEWAY, ()) if one.state != "critical"]
        return f"{url_of(ready[0])}/v1" if ready else None

    def links(self) -> dict[str, str]:
        found = {GRAFANA.title(): url_of(one) for one in self._known().get(GRAFANA, ())[:1]}
        return {**found, **self._links}

    def unknown(self) -> list[str]:
        away = self.watch.away if self.watch is not None else None
        consul = f"Consul does not answer, so this is its last word: {away}." if away else None
        nomad = self._nomad.away if self._nomad is not None else None
        return [each for each in (consul, nomad) if each]

    async def services(self) -> list[ServiceHealth]:
        """Return every instance in Consul, and every job that Nomad could not place."""
        known = sorted(_shown(self._known()), key=lambda one: (one.service, one.node, one.id))
        waiting = await self._nomad.unplaced() if self._nomad is not None else {}
        placed = {one.service for one in known}
        return [self._service(one) for one in known] + [
            ServiceHealth(
                name=job, url="", machine="", healthy=False, since=self._clock(), detail=why
            )
            for job, why in waiting.items()
            if job not in placed
        ]

    async def machines(self, services: list[ServiceHealth]) -> list[Machine]:
        """Return the machines of Nomad, and those that are only in Consul."""
        there = {machine.name: machine for machine in machines_of(services)}
        told = await self._nomad.machines() if self._nomad is not None else []
        for machine in told:
            known = there.pop(machine.name, None)
            machine.services = known.services if known is not None else []
        addresses = {one.node: one.node_address for one in _all(self._known())}
        for machine in there.values():
            machine.address = addresses.get(machine.name, "")
        return sorted([*told, *there.values()], key=lambda machine: machine.name)

    async def measure(self) -> dict[str, HostStats]:
        """Measurements of Nomad's clients."""
        return await self._nomad.measure() if self._nomad is not None else {}

    async def restart(self, service: str, machine: str) -> None:
        """Restart what Nomad runs; the rest is a service of the machine's systemd."""
        here = [one for one in self._known().get(service, ()) if one.node == machine]
        if not here:
            raise NotRestarted(f"Consul knows no service {service!r} on {machine!r}.")
        runs = ALLOCATION.match(here[0].id)
        if runs is None or self._nomad is None:
            message = f"Nomad does not run {service}: restart it on {machine}."
            raise NotRestarted(message, f"systemctl restart {service}")
        await self._nomad.restart(runs[1])

    def _known(self) -> Services:
        return self.watch.services if self.watch is not None else {}

    def _service(self, one: ServiceInstance) -> ServiceHealth:
        healthy, since = self._since.get((one.node, one.id), (True, self._clock()))
        return ServiceHealth(
            name=one.service,
            url=self._url(one) if one.port and one.service != CONSUL else "",
            machine=one.node,
            healthy=healthy,
            since=since,
            detail="" if healthy else one.reason,
        )

    def _url(self, one: ServiceInstance) -> str:
        """Return the address of a service. Nomad registers itself without a scheme; its link has
        it."""
        if one.service in NOMAD:
            scheme = urlsplit(self._links.get("Nomad", "")).scheme
            return url_of(one, scheme=scheme or "http")
        return url_of(one)


def url_of(one: ServiceInstance, *, scheme: str = "http") -> str:
    """Return the address; services without plain HTTP set `scheme` in their meta."""
    host = f"[{one.address}]" if ":" in one.address else one.address
    return f"{one.meta.get('scheme', scheme)}://{host}:{one.port}"


def _shown(services: Services) -> list[ServiceInstance]:
    """Return the services without the ports that Nomad's servers use among themselves."""
    return [one for one in _all(services) if not INTERNAL.intersection(one.tags)]


def _all(services: Services) -> list[ServiceInstance]:
    return [one for several in services.values() for one in several]
