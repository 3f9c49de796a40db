"""The services of an instance on one machine."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psutil

from hearth.service.control import ControlFailed, Request, send
from hearth.service.host import HostMeter, HostStats
from pipecatapp.tools.cluster.places import Machine, NotRestarted, ServiceHealth, machines_of

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class FixedPlaces:
    """Services at the addresses that `services` returns; the health of each is requested every
    time.

    `meter` measures this machine; `control` is the socket of the `hearth up` that runs the
    services, if there is one. The `http` client has the timeout, so that one silent service does
    not delay the whole result.
    """

    def __init__(
        self,
        services: Callable[[], Mapping[str, str]],
        *,
        gateway: str,
        http: httpx2.AsyncClient,
        meter: HostMeter | None = None,
        control: Callable[[], Path | None] = lambda: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._services, self._http, self._clock = services, http, clock
        self._gateway, self._meter, self._control = gateway, meter, control
        self._seen: dict[str, tuple[bool, datetime]] = {}

    def gateway(self) -> str:
        return self._gateway

    def links(self) -> dict[str, str]:
        return {}

    def unknown(self) -> list[str]:
        return []

    async def machines(self, services: list[ServiceHealth]) -> list[Machine]:
        """Capacity is known of this machine only."""
        found = machines_of(services)
        for machine in found:
            if machine.name == socket.gethostname():
                machine.cores = psutil.cpu_count()
                machine.memory_mb = psutil.virtual_memory().total >> 20
        return found

    async def measure(self) -> dict[str, HostStats]:
        if self._meter is None:
            return {}
        return {socket.gethostname(): await asyncio.to_thread(self._meter.read)}

    async def restart(self, service: str, machine: str) -> None:
        control = self._control()
        if control is None:
            raise NotRestarted(
                "These services were not started by `hearth up`: restart them there."
            )
        try:
            await asyncio.to_thread(send, control, Request(action="restart", name=service))
        except ControlFailed as error:
            raise NotRestarted(str(error)) from error

    async def services(self) -> list[ServiceHealth]:
        """Ask every service for its health at the same time."""
        asked = [self._service(name, url) for name, url in self._services().items()]
        return list(await asyncio.gather(*asked))

    async def _service(self, name: str, url: str) -> ServiceHealth:
        try:
            answer = await self._http.get(f"{url}/health")
        except httpx2.HTTPError as error:
            healthy, told = False, {"reasons": [str(error) or type(error).__name__]}
        else:
            healthy, told = answer.is_success, _json_object(answer)
        return ServiceHealth(
            name=name,
            url=url,
            machine=machine_of(url),
            healthy=healthy,
            since=self._since(name, told, healthy=healthy),
            detail="" if healthy else _reason(told),
        )

    def _since(self, name: str, told: dict[str, Any], *, healthy: bool) -> datetime:
        """The service's own word, else when we first saw it in the state that it is in."""
        seen = self._seen.get(name)
        if seen is None or seen[0] != healthy:
            seen = self._seen[name] = (healthy, self._clock())
        try:
            return datetime.fromisoformat(str(told["since"]))
        except (KeyError, ValueError):
            return seen[1]


def machine_of(url: str) -> str:
    """The host of an address; for a loopback address, the name of this machine."""
    host = urlsplit(url).hostname or ""
    return socket.gethostname() if host in LOOPBACK else host


def _json_object(answer: httpx2.Response) -> dict[str, Any]:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _reason(told: dict[str, Any]) -> str:
    """Our services list `reasons`; a model server answers with OpenAI's error body."""
    reasons = told.get("reasons")
    if isinstance(reasons, list) and reasons:
        return "; ".join(str(reason) for reason in reasons)
    error = told.get("error")
    if isinstance(error, dict) and error.get("message"):
        return str(error["message"])
    return "it gives no reason"
