"""State of the machines, services and experts of this instance."""

from collections.abc import Callable
from typing import Any

import httpx2
import structlog
from pydantic import BaseModel, Field, TypeAdapter

from pipecatapp.tools.cluster.places import Places, ServiceHealth

log = structlog.get_logger()


class ExpertPlace(BaseModel):
    """One server of an expert; an expert may run on several machines, each with its own model."""

    machine: str = ""
    model: str | None = None
    url: str = Field("", exclude=True)
    healthy: bool
    slots: int = Field(1, exclude=True)
    in_flight: int = Field(0, exclude=True)
    busy_elsewhere: int = Field(0, exclude=True)
    tokens_per_second: float | None = Field(None, description="Of its last streams, smoothed.")


class ExpertHealth(BaseModel):
    """One expert as the gateway sees it: the model that really runs, and why not if it does not."""

    name: str
    model: str | None = None
    model_reason: str = Field("", description="Why this model of the expert's list runs.")
    healthy: bool
    reason: str = ""
    tools: str = Field("none", description="native, grammar or none: how it is offered tools.")
    aliases: list[str] = Field([], exclude=True)
    vision: bool = Field(default=False, exclude=True)
    embeddings: bool = Field(default=False, exclude=True)
    context: int | None = Field(None, exclude=True)
    cost: float = Field(1.0, exclude=True)
    instances: list[ExpertPlace] = Field([], description="Where it runs.")


EXPERTS: TypeAdapter[list[ExpertHealth]] = TypeAdapter(list[ExpertHealth])


class GatewayAway(Exception):
    """The gateway is not available; the message is a sentence."""


class Directory:
    """The services of an instance by name, and the gateway with its experts.

    `key` is a key of the gateway. The `http` client has the timeout. `own` returns the programs
    that this service runs itself.
    """

    def __init__(
        self,
        places: Places,
        *,
        key: str,
        http: httpx2.AsyncClient,
        own: Callable[[], list[ServiceHealth]] = list,
    ) -> None:
        self.places, self.own, self._http, self._key = places, own, http, key
        self.experts_known = True
        """Whether the gateway listed its experts at the last request."""

    async def ask_gateway(
        self, method: str, path: str, body: Any = None, *, seconds: float
    ) -> httpx2.Response:
        """Send a request with the key of this service to a path of the gateway.

        Raises `GatewayAway` where no gateway is known or it does not answer within `seconds`.
        """
        gateway = self.places.gateway()
        if gateway is None:
            raise GatewayAway("No gateway was found. See the status page.")
        try:
            return await self._http.request(
                method,
                f"{gateway.removesuffix('/v1')}{path}",
                json=body,
                headers={"authorization": f"Bearer {self._key}"},
                timeout=seconds,
            )
        except httpx2.TransportError as error:
            raise GatewayAway("The gateway does not answer. See the status page.") from error

    async def experts(self) -> list[ExpertHealth]:
        """Return the gateway's experts; none if it does not respond, which is logged once."""
        gateway = self.places.gateway()
        try:
            if gateway is None:
                raise ValueError("no gateway is known")
            answer = await self._http.get(
                f"{gateway.removesuffix('/v1')}/api/experts",
                headers={"authorization": f"Bearer {self._key}"},
            )
            answer.raise_for_status()
            experts = EXPERTS.validate_python(answer.json()["experts"])
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            if self.experts_known:
                log.warning("experts_unknown", gateway=gateway, reason=str(error))
            self.experts_known = False
            return []
        if not self.experts_known:
            log.info("experts_known_again", gateway=gateway)
        self.experts_known = True
        return experts
