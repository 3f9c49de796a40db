"""The servers behind the gateway: what they are, and whether they are well."""

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import structlog

from hearth.openai_api.errors import message_of
from hearth.service.health import Health
from hearth.service.settings import read_key
from moe_gateway.pool import Pool, fixed_head
from moe_gateway.settings import InstanceSettings, Settings
from moe_gateway.upstream import Address, TimedOut, UpstreamError

log = structlog.get_logger()

CHECK_SECONDS: Final = 2.0
"""How long an answer to a health check may take."""

NOT_ASKED: Final = "not asked yet"

MODEL_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,99}")
"""Ids that may stand in a header and a label; others are not offered."""


class Instance:
    """One server, with what is known of it now. Routing sees it as a `Candidate`."""

    def __init__(self, settings: InstanceSettings) -> None:
        self.settings = settings
        self.address = Address.of(str(settings.url))
        where = self.address.authority
        self.label = f"{settings.expert}@{where}" if settings.expert else where
        self.key = read_key(settings.key_file).encode() if settings.key_file else b""
        self.fixed_head = fixed_head(self.address, self.key)
        self.expert = settings.expert
        self.names: Sequence[str] = (settings.expert, *settings.aliases) if settings.expert else ()
        self.model: str | None = None
        """The model that really runs there, as the server tells."""
        self.healthy, self.reason = False, NOT_ASKED
        self.since = datetime.now(UTC)
        self.in_flight = 0
        self.slots, self.context = settings.slots, settings.context
        self.tools, self.vision = settings.tools, settings.vision
        self.embeddings, self.cost = settings.embeddings, settings.cost

    @property
    def load(self) -> float:
        return self.in_flight / self.slots

    @property
    def repeatable(self) -> bool:
        """Whether a request may be sent twice: an expert has no effects, an agent may have."""
        return self.expert is not None

    def model_for(self, asked: str) -> str:
        """The name by which the server itself knows the model."""
        return self.expert or asked

    def well(self) -> None:
        """It answers. Said in the log when it did not before."""
        if not self.healthy:
            self.healthy, self.reason, self.since = True, "", datetime.now(UTC)
            log.info("instance_ready", instance=self.label, models=list(self.names))

    def ill(self, reason: str) -> None:
        """It does not answer. Said in the log when it did before, or has not been asked before."""
        if self.healthy:
            log.warning("instance_lost", instance=self.label, reason=reason)
            self.since = datetime.now(UTC)
        elif self.reason == NOT_ASKED:
            log.info("instance_not_ready_yet", instance=self.label, reason=reason)
        self.healthy, self.reason = False, reason

    def facts(self) -> dict[str, Any]:
        """What `/api/experts` tells."""
        return {
            "instance": self.label,
            "url": self.address.url,
            "healthy": self.healthy,
            "reason": self.reason,
            "since": self.since.isoformat(),
            "model": self.model,
            "in_flight": self.in_flight,
            "slots": self.slots,
        }


class Watch:
    """Keeps every instance's health and models up to date, and the gateway's own health."""

    def __init__(
        self, instances: Sequence[Instance], pool: Pool, settings: Settings, health: Health
    ) -> None:
        self.instances, self.pool, self.settings, self.health = instances, pool, settings, health
        self.tell()

    async def run(self, instance: Instance) -> None:
        """Watch one instance for ever."""
        asked_at = -self.settings.models_interval
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() - asked_at >= self.settings.models_interval
            try:
                await self._check(instance, ask_models=due or not instance.healthy)
                asked_at = loop.time() if due else asked_at
            except UpstreamError as error:
                # All HTTP threads of a busy server may be taken; a dead one refuses.
                if not (isinstance(error, TimedOut) and instance.in_flight):
                    instance.ill(str(error))
            self.tell()
            await asyncio.sleep(self.settings.check_interval)

    def tell(self) -> None:
        """The gateway is ready when one expert is."""
        experts = [instance for instance in self.instances if instance.expert is not None]
        if any(instance.healthy for instance in experts):
            self.health.ready_again("experts")
        else:
            reasons = "; ".join(f"{one.expert} at {one.label}: {one.reason}" for one in experts)
            self.health.not_ready("experts", reasons or "none is configured")

    async def _check(self, instance: Instance, *, ask_models: bool) -> None:
        status, body = await self._get(instance, "/health")
        if status >= 500:
            instance.ill(f"HTTP {status}: {_words(body)}")
            return
        if ask_models:
            status, body = await self._get(instance, "/v1/models")
            ids = _model_ids(body) if status == 200 else []
            if instance.expert is None:
                if not ids:
                    instance.ill(f"HTTP {status}: it lists no models")
                    return
                instance.names = tuple(ids)
            else:
                instance.model = ids[0] if ids else None
        instance.well()

    async def _get(self, instance: Instance, path: str) -> tuple[int, bytes]:
        return await self.pool.get(instance.address, path, key=instance.key, seconds=CHECK_SECONDS)


def _model_ids(body: bytes) -> list[str]:
    try:
        found = orjson.loads(body)
        ids = [str(model["id"]) for model in found["data"]]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return []
    return [name for name in ids if MODEL_ID.fullmatch(name)]


def _words(body: bytes) -> str:
    """The words of an error body or of one of our health reports."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode("utf-8", "replace")[:200]
    if isinstance(found, dict) and isinstance(found.get("reasons"), list):
        return "; ".join(str(reason) for reason in found["reasons"])[:200]
    return message_of(found)[:200]
