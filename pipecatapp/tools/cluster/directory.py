"""What the services and experts of this instance say of themselves."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import structlog
from pydantic import BaseModel, Field, TypeAdapter

log = structlog.get_logger()

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServiceHealth(BaseModel):
    """One service: where it is, whether it works, since when, and if not, why."""

    name: str
    url: str
    machine: str
    healthy: bool
    since: datetime = Field(description="When it became healthy, or was first seen not to be.")
    detail: str = Field(description="Why it is not healthy; empty when it is.")


class ExpertHealth(BaseModel):
    """One expert as the gateway sees it: the model that really runs, and why not if it does not."""

    name: str
    model: str
    healthy: bool
    reason: str = ""
    tools: str = Field("none", description="native, grammar or none: how it is offered tools.")


EXPERTS: TypeAdapter[list[ExpertHealth]] = TypeAdapter(list[ExpertHealth])


class Directory:
    """The services of an instance by name, and the gateway that knows its experts.

    `gateway` is the gateway's OpenAI address, which ends in `/v1`; `key` opens it. The `http`
    client brings the time limit, so that one silent service does not hold up the whole answer.
    """

    def __init__(
        self,
        services: Mapping[str, str],
        *,
        gateway: str,
        key: str,
        http: httpx2.AsyncClient,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._services, self._http, self._clock = dict(services), http, clock
        self._experts_url = f"{gateway.removesuffix('/v1')}/api/experts"
        self._key = key
        self._seen: dict[str, tuple[bool, datetime]] = {}
        self._experts_known = True

    async def services(self) -> list[ServiceHealth]:
        """Ask every service for its health at the same time."""
        asked = [self._service(name, url) for name, url in self._services.items()]
        return list(await asyncio.gather(*asked))

    async def experts(self) -> list[ExpertHealth]:
        """The gateway's experts; none while it does not tell, which is logged once."""
        try:
            answer = await self._http.get(
                self._experts_url, headers={"authorization": f"Bearer {self._key}"}
            )
            answer.raise_for_status()
            experts = EXPERTS.validate_python(answer.json()["experts"])
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            if self._experts_known:
                log.warning("experts_unknown", url=self._experts_url, reason=str(error))
            self._experts_known = False
            return []
        if not self._experts_known:
            log.info("experts_known_again", url=self._experts_url)
        self._experts_known = True
        return experts

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
    return "it does not say why"
