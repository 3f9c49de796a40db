"""The servers behind the gateway, with their properties and their health."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import structlog
from pydantic import ValidationError

from hearth.service.health import Health
from hearth.service.settings import read_key
from moe_gateway.http.connection import Address, TimedOut, UpstreamError
from moe_gateway.http.pool import Pool, fixed_head
from moe_gateway.routing.admission import SMOOTHING, Circuit
from moe_gateway.routing.discovery import (
    busy_slots,
    is_wanted,
    model_told,
    models_of,
    settings_of,
    words,
)
from moe_gateway.routing.instances_file import InstancesFile
from moe_gateway.settings import InstanceSettings, Settings

if TYPE_CHECKING:
    from hearth.cluster.watch import ServiceInstance, Services, ServiceWatch

log = structlog.get_logger()

SLOTS_SECONDS: Final = 0.5
"""Timeout of the request for its slots, which llama-server answers only between two batches."""

NEW_SECONDS: Final = 60
"""How long an instance that has never answered is checked ten times as often."""
NOT_ASKED: Final = "not asked yet"


class Instance:
    """One server, with what is known of it now. Routing sees it as a `Candidate`."""

    breaker_generation = before = 0
    """How often its circuit has opened, and how many requests in flight are older than that."""

    answers = 0
    """How many requests it began to answer."""

    token_seconds = 0.0
    """Smoothed seconds between two tokens of a stream; 0 before the first one."""

    gone = False
    """It was removed; its active requests continue."""

    def __init__(
        self, settings: InstanceSettings, machine: str = "", circuit: Circuit | None = None
    ) -> None:
        self.settings, self.machine = settings, machine or settings.machine or ""
        self.address = Address.of(str(settings.url))
        where = self.address.authority
        self.label = f"{settings.expert}@{where}" if settings.expert else where
        self.key = read_key(settings.key_file).encode() if settings.key_file else b""
        self.fixed_head = fixed_head(self.address, self.key)
        self.expert, self.speech = settings.expert, settings.speech
        own = (settings.expert, *settings.aliases) if settings.expert else settings.aliases
        self.names: Sequence[str] = own
        self.model: str | None = None
        """The model that the server reports."""
        self.model_reason = ""
        """The launcher's reason for the selection of this model from the expert's list."""
        self.healthy, self.reason = False, NOT_ASKED
        self.since = datetime.now(UTC)
        self.in_flight = 0
        self.busy_elsewhere = 0
        """Slots in use by other clients, as reported by the server."""
        self.needs_scope: Mapping[str, str] = {}
        """Model -> the scope that its callers need, as reported by an agent; default:
        `workflows`."""
        self.circuit = circuit or Circuit()
        self.first_byte = 0.0
        """Smoothed seconds to the first byte."""
        self.slots, self.context = settings.slots, settings.context
        self.tools, self.vision = settings.tools, settings.vision
        self.embeddings, self.cost, self.auto = settings.embeddings, settings.cost, settings.auto
        self.chat, self.structured = settings.chat, settings.structured
        self.rerank, self.images = settings.rerank, settings.images
        self.languages, self.domains = settings.languages, settings.domains
        self.fallback = settings.fallback

    @property
    def load(self) -> float:
        return (self.in_flight + self.busy_elsewhere) / self.slots

    @property
    def usable(self) -> bool:
        """It passes its checks, and its circuit is not open."""
        return self.healthy and not (self.circuit.open_until and self.circuit.state == "open")

    @property
    def free(self) -> bool:
        """Whether it can take one more request now. A server that lists its own models also
        queues itself."""
        if self.settings.lists_models:
            return True
        if self.circuit.open_until and self.circuit.state == "half-open":
            return self.in_flight <= self.before  # Earlier requests are not probes.
        return self.in_flight < self.slots

    @property
    def turn(self) -> tuple[bool, float, float]:
        """Sort key for routing (see `Candidate`), read for each instance at each request."""
        under_way, slots = self.in_flight, self.slots
        full = not self.free if under_way >= slots or self.circuit.open_until else False
        return full, (under_way + self.busy_elsewhere) / slots, self.first_byte

    def answered(self, seconds: float) -> None:
        """It sent its first byte after so many seconds."""
        self.circuit.succeeded()
        self.answers += 1
        self.first_byte += SMOOTHING * (seconds - self.first_byte)

    def paced(self, pause: float) -> None:
        """The tokens of a stream had this mean pause, in seconds, between them."""
        known = self.token_seconds
        self.token_seconds = known + SMOOTHING * (pause - known) if known else pause

    def failed(self, reason: str, breaker_generation: int) -> None:
        """Record a failed request. Failures of requests sent before the breaker opened are
        ignored. Logs when the breaker opens."""
        if breaker_generation == self.breaker_generation and self.circuit.failed():
            self.breaker_generation, self.before = self.breaker_generation + 1, self.in_flight
            log.warning("circuit_open", instance=self.label, reason=reason)

    @property
    def repeatable(self) -> bool:
        """Whether a request may be sent twice: an agent may have effects, the others have none."""
        return not self.settings.lists_models

    def model_for(self, asked: str) -> str:
        """Return the name of the model on the server itself."""
        if self.speech is not None and self.names and asked not in self.names:
            return self.names[0]
        return self.expert or asked

    def learn(self, models: Mapping[str, str]) -> None:
        """Store the models that it lists, each with the scope that its callers need, or an empty
        text."""
        if self.expert is not None:
            self.model = next(iter(models), None)
        elif models:
            self.names = tuple(dict.fromkeys((*models, *self.settings.aliases)))
            self.needs_scope = {name: scope for name, scope in models.items() if scope}

    def well(self) -> None:
        """Mark it as healthy. Logs a change."""
        if not self.healthy:
            self.healthy, self.reason, self.since = True, "", datetime.now(UTC)
            log.info("instance_ready", instance=self.label, models=list(self.names))

    def ill(self, reason: str) -> None:
        """Mark it as unhealthy. Logs a change, and the first failure."""
        if self.healthy:
            log.warning("instance_lost", instance=self.label, reason=reason)
            self.since = datetime.now(UTC)
        elif self.reason == NOT_ASKED:
            log.info("instance_not_ready_yet", instance=self.label, reason=reason)
        self.healthy, self.reason = False, reason

    def facts(self) -> dict[str, Any]:
        """Return the entry of `/api/experts`."""
        return {
            "instance": self.label,
            "machine": self.machine,
            "url": self.address.url,
            "healthy": self.healthy,
            "reason": self.reason,
            "since": self.since.isoformat(),
            "model": self.model,
            "model_reason": self.model_reason,
            "in_flight": self.in_flight,
            "circuit": self.circuit.state,
            "slots": self.slots,
            "busy_elsewhere": self.busy_elsewhere,
            "first_byte_seconds": self.first_byte,
            "tokens_per_second": 1 / self.token_seconds if self.token_seconds else None,
        }


class Watch:
    """Keeps the instances, their health and models up to date, and the gateway's own health.

    `instances` is the shared list that this class fills: instances of the settings, and those that
    Consul knows. `left` is called with the label of each removed instance; `told` is called after
    each check.
    """

    def __init__(
        self,
        instances: list[Instance],
        pool: Pool,
        settings: Settings,
        health: Health,
        left: Callable[[str], None] = lambda label: None,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self.instances, self.pool, self.settings, self.health = instances, pool, settings, health
        self.consul = self._consul()
        self._left, self._told = left, told
        self._file = InstancesFile(settings.instances_file) if settings.instances_file else None
        listed = self._file.changed() if self._file else None
        self._listed = {one: self.new(one) for one in listed or settings.instances}
        """The servers of the settings, or of their file."""
        instances.extend(self._listed.values())
        self._found: dict[tuple[str, str], tuple[ServiceInstance, Instance]] = {}
        self._looking: dict[Instance, asyncio.Task[None]] = {}
        self._group = asyncio.TaskGroup()
        self.tell()

    def _consul(self) -> "ServiceWatch | None":
        """Loaded only where there is a Consul: its client is two megabytes."""
        settings = self.settings
        if settings.consul_url is None:
            return None
        consul = import_module("hearth.cluster.watch")
        agent = consul.ConsulAgent(
            str(settings.consul_url), settings.consul_token_file, settings.tls_ca_file
        )
        watch: ServiceWatch = consul.ServiceWatch(agent, wanted=is_wanted, changed=self.take)
        return watch

    async def run(self) -> None:
        """Watch for ever."""
        async with self._group:
            for instance in self.instances:
                self._look_after(instance)
            if self._file is not None:
                self._group.create_task(self._file.follow(self.take_list))
            if self.consul is not None:
                await self.consul.run()
            await asyncio.Event().wait()

    def tell(self) -> None:
        """The gateway is ready when one expert is: one that chats, if there are any."""
        known = [instance for instance in self.instances if instance.expert is not None]
        experts = [one for one in known if one.chat] or known
        if any(instance.healthy for instance in experts):
            self.health.ready_again("experts")
        else:
            reasons = "; ".join(f"{one.expert} at {one.label}: {one.reason}" for one in experts)
            self.health.not_ready("experts", reasons or self._why_none())
        self._told()

    def _why_none(self) -> str:
        if self.consul is None:
            return "none is configured"
        return f"Consul: {self.consul.away}" if self.consul.away else "none is known to Consul"

    def take_list(self, listed: Sequence[InstanceSettings]) -> None:
        """Replace the listed servers; one that is in both lists is kept."""
        for settings in self._listed.keys() - set(listed):
            self._drop(self._listed.pop(settings), "it is no longer in the list of instances")
        for settings in listed:
            if settings not in self._listed:
                instance = self._listed[settings] = self.new(settings)
                self.instances.append(instance)
                self._look_after(instance)
        self.tell()

    # Updates from Consul.

    def take(self, services: "Services") -> None:
        """Use healthy services of Consul at once, stop using critical ones, and remove the others.

        Active requests keep their instance: nothing is interrupted.
        """
        known = {(one.id, one.node): one for several in services.values() for one in several}
        for which in self._found.keys() - known.keys():
            self._forget(which)
        for which, now in known.items():
            before = self._found.get(which)
            if before is None or before[0] != now:
                self._meet(which, now)
        self.tell()

    def _meet(self, which: tuple[str, str], now: "ServiceInstance") -> None:
        try:
            settings = settings_of(now, self.settings)
        except ValidationError as error:
            problem = error.errors()[0]
            place = ".".join(str(part) for part in problem["loc"])
            log.warning("instance_unusable", id=now.id, reason=f"meta {place}: {problem['msg']}")
            self._forget(which)
            return
        before, instance = self._found.get(which, (None, None))
        if instance is None or instance.settings != settings:
            self._forget(which)
            before, instance = None, self.new(settings, now.node)
            self.instances.append(instance)
        self._found[which] = (now, instance)
        instance.model = model_told(now) or instance.model
        instance.model_reason = now.meta.get("model_reason", "")
        self._judge(instance, before, now)

    def _judge(
        self, instance: Instance, before: "ServiceInstance | None", now: "ServiceInstance"
    ) -> None:
        """Apply Consul's health when it changes; between changes, the gateway's own checks
        decide."""
        if now.state == "critical":
            self._look_away(instance)
            instance.ill(f"Consul: {now.reason}")
        elif before is None or before.state == "critical":
            if not instance.settings.lists_models:
                instance.well()
            self._look_after(instance)

    def new(self, settings: InstanceSettings, machine: str = "") -> Instance:
        """Create an instance, with the circuit of the gateway's settings."""
        circuit = Circuit(self.settings.circuit_failures, self.settings.circuit_seconds)
        return Instance(settings, machine, circuit)

    def _forget(self, which: tuple[str, str]) -> None:
        if which in self._found:
            _, instance = self._found.pop(which)
            self._drop(instance, "it is no longer registered in Consul")

    def _drop(self, instance: Instance, reason: str) -> None:
        self._look_away(instance)
        instance.ill(reason)
        instance.gone = True
        self.instances.remove(instance)
        self._left(instance.label)

    # Health checks and models of the instances.

    def _look_after(self, instance: Instance) -> None:
        self._looking[instance] = self._group.create_task(self._look(instance))

    def _look_away(self, instance: Instance) -> None:
        task = self._looking.pop(instance, None)
        if task is not None:
            task.cancel()

    async def _look(self, instance: Instance) -> None:
        """Watch one instance until cancelled.

        One that starts together with the gateway is found soon after it answers, so that the first
        request of a user finds all models.
        """
        asked_at = -self.settings.models_interval
        loop = asyncio.get_running_loop()
        new_until = loop.time() + NEW_SECONDS
        answered = False
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
            answered = answered or instance.healthy
            new = not answered and loop.time() < new_until
            await asyncio.sleep(self.settings.check_interval / (10 if new else 1))

    async def _check(self, instance: Instance, *, ask_models: bool) -> None:
        status, body = await self._get(instance, "/health")
        if status >= 500:
            instance.ill(f"HTTP {status}: {words(body)}")
            return
        if ask_models:
            status, body = await self._get(instance, "/v1/models")
            told = models_of(body) if status == 200 else {}
            if instance.settings.lists_models and not told:
                instance.ill(f"HTTP {status}: it lists no models")
                return
            instance.learn(told)
        if instance.expert is not None:
            instance.busy_elsewhere = await self._busy_elsewhere(instance)
        instance.well()

    async def _busy_elsewhere(self, instance: Instance) -> int:
        """Slots that work for others, by llama-server's own account; 0 where it keeps none."""
        ours = instance.in_flight
        try:
            status, body = await self._get(instance, "/slots", SLOTS_SECONDS)
        except UpstreamError:
            return instance.busy_elsewhere  # It processes a long prompt, and answers afterwards.
        return max(0, busy_slots(body) - max(ours, instance.in_flight)) if status == 200 else 0

    async def _get(
        self, instance: Instance, path: str, seconds: float | None = None
    ) -> tuple[int, bytes]:
        seconds = seconds or self.settings.check_timeout
        return await self.pool.get(instance.address, path, key=instance.key, seconds=seconds)
