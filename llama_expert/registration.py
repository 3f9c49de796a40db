"""Registration of an expert in Consul by its launcher, which knows the model that really runs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import structlog

from hearth.cluster.watch import ConsulAgent, ConsulAway
from hearth.models.catalogue import Model
from hearth.models.engines import slots_of, stops_unary
from hearth.service.logs import lasting
from hearth.service.names import expert_service
from hearth.service.version import hearth_version
from llama_expert.process import address
from llama_expert.settings import Settings

log = structlog.get_logger()

LOOK_SECONDS: Final = 5.0
"""How often it is seen whether the entry is still there: an agent that lost its data has none."""

CHECK_INTERVAL: Final = "2s"
GONE_AFTER: Final = "1m"
"""Consul forgets an entry that was critical for so long: its machine died with its launcher."""

META_LENGTH: Final = 512
"""Consul refuses longer values ("Service metadata", limits of /agent/service/register)."""

HALT_SECONDS: Final = 3.0


def entry(settings: Settings, model: Model, reason: str, workers: int) -> dict[str, Any]:
    """The body of `PUT /v1/agent/service/register`; its meta has the data for the gateway."""
    meta = {
        "expert": settings.name,
        "aliases": ",".join(settings.aliases),
        "model": model.name,
        "model_reason": reason,
        "engine": settings.engine,
        "context": str(settings.context or model.context),
        "slots": str(slots_of(settings.engine, settings.slots)),
        "tools": model.tools,
        "vision": "false",
        "embeddings": "false",
        "cost": f"{settings.cost:g}",
        "languages": ",".join(settings.languages),
        "domains": ",".join(settings.domains),
        "fallback": ",".join(settings.fallback),
        "auto": str(settings.auto).lower(),
        "stops_unary": str(stops_unary(settings.engine)).lower(),
        "rpc_workers": str(workers),
        "hearth_version": hearth_version(),
    }
    return {
        "ID": f"{expert_service(settings.name)}-{settings.host}-{settings.port}",
        "Name": expert_service(settings.name),
        "Address": str(settings.host),
        "Port": settings.port,
        "Tags": ["expert"],
        "Meta": {name: value[:META_LENGTH] for name, value in meta.items()},
        "Check": {
            "Name": "health",
            "HTTP": f"{address(settings)}/health",
            "Interval": CHECK_INTERVAL,
            "Timeout": "5s",
            # It has just answered; the first check would cost the gateway two seconds.
            "Status": "passing",
            "DeregisterCriticalServiceAfter": GONE_AFTER,
        },
    }


@dataclass(frozen=True)
class Registration:
    """One entry at the Consul agent of this machine."""

    agent: ConsulAgent
    body: Mapping[str, Any]

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Inside the block the entry is there as soon as Consul can be reached; then no more."""
        keeping = asyncio.create_task(lasting(self._keep))
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await self._withdraw()

    async def _keep(self) -> None:
        said = ""
        async with self.agent.client() as http:
            while True:
                try:
                    if not await self._known(http):
                        await self._put(http, "register", self.body)
                        log.info("registered", id=self.body["ID"], consul=self.agent.url)
                    said = ""
                except ConsulAway as error:
                    if str(error) != said:
                        said = str(error)
                        log.warning("not_registered", consul=self.agent.url, reason=said)
                await asyncio.sleep(LOOK_SECONDS if not said else 1.0)

    async def _withdraw(self) -> None:
        try:
            async with asyncio.timeout(HALT_SECONDS), self.agent.client() as http:
                await self._put(http, f"deregister/{self.body['ID']}", None)
        except (ConsulAway, TimeoutError) as error:
            # Its check turns critical, and Consul forgets it after GONE_AFTER.
            log.warning("not_deregistered", id=self.body["ID"], reason=str(error))

    async def _known(self, http: httpx2.AsyncClient) -> bool:
        """Whether the agent has the entry with these facts."""
        answer = await self._ask(http, "GET", f"/v1/agent/service/{self.body['ID']}")
        if answer.status_code != 200:
            return False
        try:
            return bool(answer.json()["Meta"] == self.body["Meta"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConsulAway("its response is not a valid service entry") from error

    async def _put(
        self, http: httpx2.AsyncClient, verb: str, body: Mapping[str, Any] | None
    ) -> None:
        answer = await self._ask(http, "PUT", f"/v1/agent/service/{verb}", body)
        if not answer.is_success:
            raise ConsulAway(f"HTTP {answer.status_code}: {answer.text.strip()[:200]}")

    async def _ask(
        self,
        http: httpx2.AsyncClient,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
    ) -> httpx2.Response:
        try:
            return await http.request(
                method, path, json=body, headers=self.agent.headers(), timeout=HALT_SECONDS
            )
        except httpx2.RequestError as error:
            raise ConsulAway(str(error) or type(error).__name__) from error
