"""Metrics of the gateway. Labels are bounded: a model that does not exist is `unknown`."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hearth.openai_api.usage import TokenCount
from moe_gateway.keys.keyring import Keyring
from moe_gateway.requests.counts import Count, Counts, Spread, Spreads
from moe_gateway.routing.admission import Admission
from moe_gateway.routing.instances import Instance

UNKNOWN: Final = "unknown"
NOWHERE: Final = "none"
"""The `instance` of a request that was refused before one was chosen."""

GONE: Final = "gone"
"""The `status` of a request whose caller disconnected."""

STATUSES: Final = ("2xx", "4xx", "5xx", GONE)

FIRST_BYTE_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
BETWEEN_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
PLACE_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
DURATION_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)


@dataclass(slots=True)
class Meters:
    """The counters of one model on one instance, found once."""

    prompt: Count
    completion: Count
    cached: Count
    hits: Count
    misses: Count
    first_byte: Spread
    duration: Spread
    upstream: Spread
    between: Spread

    def used(self, usage: TokenCount, *, at_home: bool) -> None:
        """Add the tokens of an answer; `at_home`: the instance that caches its prefix answered."""
        self.prompt.value += usage.prompt
        self.completion.value += usage.completion
        if usage.cached:
            self.cached.inc(usage.cached)
        if at_home:
            (self.hits if usage.cached * 2 >= usage.prompt else self.misses).inc()


class GatewayMetrics:
    """The metrics of the fast path."""

    def __init__(
        self,
        registry: CollectorRegistry,
        instances: Sequence[Instance],
        admission: Admission[Instance],
        keys: Keyring | None = None,
    ) -> None:
        """Without `keys`, there are no metrics of keys."""
        self._answers(registry)
        self._times(registry)
        self._waits(registry)
        self._counts: dict[tuple[str, str, str], Count] = {}
        self._meters: dict[tuple[str, str], Meters] = {}
        registry.register(InstanceCollector(instances, admission))
        registry.register(KeyCollector(keys or Keyring(())))

    def _answers(self, registry: CollectorRegistry) -> None:
        self._requests = Counts(
            "moe_gateway_requests",
            "Answered requests; status is 2xx, 4xx, 5xx, or gone if the caller disconnected.",
            ["model", "instance", "status"],
            registry=registry,
        )
        self._tokens = Counts(
            "moe_gateway_tokens",
            "Tokens, as the servers count them; kind is prompt or completion.",
            ["model", "instance", "kind"],
            registry=registry,
        )
        self._cached = Counts(
            "moe_gateway_cached_tokens",
            "Prompt tokens that were in the server's cache, as it reports.",
            ["model", "instance"],
            registry=registry,
        )
        self._affinity = Counts(
            "moe_gateway_affinity",
            "Requests with cache affinity; result is hit if at least half of the prompt was in"
            " the server's cache, else miss.",
            ["model", "instance", "result"],
            registry=registry,
        )
        self._failovers = Counts(
            "moe_gateway_failovers",
            "Requests retried on another instance, by the instance that failed.",
            ["model", "instance"],
            registry=registry,
        )

    def _times(self, registry: CollectorRegistry) -> None:
        self._first_byte = Spreads(
            "moe_gateway_first_byte_seconds",
            "Seconds from the request to the first byte of its answer.",
            ["model", "instance"],
            buckets=FIRST_BYTE_BUCKETS,
            registry=registry,
        )
        self._duration = Spreads(
            "moe_gateway_duration_seconds",
            "Seconds from the request to the end of its answer.",
            ["model", "instance"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._upstream = Spreads(
            "moe_gateway_upstream_seconds",
            "Seconds from sending the request to a server to the first byte of its answer.",
            ["model", "instance"],
            buckets=FIRST_BYTE_BUCKETS,
            registry=registry,
        )
        self._between = Spreads(
            "moe_gateway_inter_token_seconds",
            "Mean seconds between two tokens of a stream, one value for each answer.",
            ["model", "instance"],
            buckets=BETWEEN_BUCKETS,
            registry=registry,
        )

    def _waits(self, registry: CollectorRegistry) -> None:
        self._queued = Spreads(
            "moe_gateway_queue_seconds",
            "Seconds that requests waited for a slot.",
            ["model"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._places = Spreads(
            "moe_gateway_queue_place",
            "The place of a request when it entered the queue; 1 is the next.",
            ["model"],
            buckets=PLACE_BUCKETS,
            registry=registry,
        )

    def count(self, model: str, instance: str, status: str) -> None:
        """Count a completed request."""
        where = (model, instance, status)
        counter = self._counts.get(where)
        if counter is None:
            counter = self._counts[where] = self._requests.labels(*where)
        counter.inc()

    def of(self, model: str, instance: str) -> Meters:
        """Return the meters of answered requests.

        The counters exist at zero from the first answer on: Prometheus sees no increase where a
        series starts with 1, so the first failure of an instance would be lost.
        """
        where = (model, instance)
        meters = self._meters.get(where)
        if meters is None:
            self._failovers.labels(model, instance)
            for status in STATUSES:
                self._requests.labels(model, instance, status)
            meters = self._meters[where] = Meters(
                self._tokens.labels(model, instance, "prompt"),
                self._tokens.labels(model, instance, "completion"),
                self._cached.labels(model, instance),
                self._affinity.labels(model, instance, "hit"),
                self._affinity.labels(model, instance, "miss"),
                self._first_byte.labels(model, instance),
                self._duration.labels(model, instance),
                self._upstream.labels(model, instance),
                self._between.labels(model, instance),
            )
        return meters

    def placed(self, model: str, place: int) -> None:
        """Count a request that entered the queue at this place."""
        self._places.labels(model).observe(place)

    def queued(self, model: str, seconds: float) -> None:
        """Record the seconds that a request waited in the queue."""
        self._queued.labels(model).observe(seconds)

    def failed_over(self, model: str, instance: str) -> None:
        self._failovers.labels(model, instance).inc()

    def forget(self, instance: str) -> None:
        """Remove the series of a deregistered instance."""
        metrics: Iterable[Counts | Spreads] = (
            self._requests,
            self._tokens,
            self._first_byte,
            self._duration,
            self._upstream,
            self._between,
            self._cached,
            self._affinity,
            self._failovers,
        )
        for metric in metrics:
            metric.remove("instance", instance)
        self._counts = {where: one for where, one in self._counts.items() if where[1] != instance}
        self._meters = {where: one for where, one in self._meters.items() if where[1] != instance}


class InstanceCollector(Collector):
    """Gauges that are read from the watch and its instances when metrics are collected."""

    def __init__(self, instances: Sequence[Instance], admission: Admission[Instance]) -> None:
        self._instances, self._admission = instances, admission

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily(
            "moe_gateway_instance_up",
            "1: the instance passes its health checks.",
            labels=["instance"],
        )
        busy = GaugeMetricFamily(
            "moe_gateway_in_flight", "Active requests of an instance.", labels=["instance"]
        )
        circuit = GaugeMetricFamily(
            "moe_gateway_circuit_open",
            "1: after repeated failures, the instance gets no requests for some seconds.",
            labels=["instance"],
        )
        waiting = GaugeMetricFamily(
            "moe_gateway_waiting", "Requests waiting for a slot.", labels=["model"]
        )
        for model, count in self._admission.waiting_for().items():
            waiting.add_metric([model], count)
        serves = GaugeMetricFamily(
            "moe_gateway_instance_serves",
            "1: this model runs on the instance and is available.",
            labels=["instance", "expert", "model"],
        )
        for instance in self._instances:
            up.add_metric([instance.label], float(instance.healthy))
            busy.add_metric([instance.label], instance.in_flight)
            circuit.add_metric([instance.label], float(instance.circuit.state != "closed"))
            if instance.healthy and instance.expert and instance.model:
                serves.add_metric([instance.label, instance.expert, instance.model], 1)
        tasks = GaugeMetricFamily(
            "moe_gateway_tasks",
            "Tasks in the event loop; without requests it returns to its initial value.",
            value=_tasks(),
        )
        return [up, busy, circuit, waiting, serves, tasks]


class ConsulCollector(Collector):
    """Whether what is known of the experts is still true."""

    def __init__(self, away: Callable[[], str | None]) -> None:
        """`away` returns the reason why Consul is unavailable, or None."""
        self._away = away

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily(
            "moe_gateway_consul_up",
            "0: Consul is not available, or not completely, and the last known experts are used."
            " Only if experts are found through Consul.",
            value=float(self._away() is None),
        )
        return [up]


def _tasks() -> int:
    """None outside of an event loop, for example when only the names of metrics are listed."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return 0


class KeyCollector(Collector):
    """Usage of each key since the start; there is one label value per open key."""

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "moe_gateway_key_requests", "Answered requests of a key.", labels=["key"]
        )
        tokens = CounterMetricFamily(
            "moe_gateway_key_tokens",
            "Tokens used by a key; kind is prompt or completion.",
            labels=["key", "kind"],
        )
        for caller in self._keys.callers():
            requests.add_metric([caller.name], caller.requests)
            tokens.add_metric([caller.name, "prompt"], caller.prompt)
            tokens.add_metric([caller.name, "completion"], caller.completion)
        return [requests, tokens]
