"""What the gateway counts. Labels are bounded: a model that nobody offers is `unknown`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hearth.openai_api.usage import TokenCount
from moe_gateway.admission import Admission
from moe_gateway.instances import Instance

UNKNOWN: Final = "unknown"
NOWHERE: Final = "none"
"""The `instance` of a request that was refused before one was chosen."""

GONE: Final = "gone"
"""The `status` of a request whose caller hung up."""

STATUSES: Final = ("2xx", "4xx", "5xx", GONE)

FIRST_BYTE_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
DURATION_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)


@dataclass(slots=True)
class Meters:
    """The counters of one model on one instance, found once."""

    prompt: Counter
    completion: Counter
    first_byte: Histogram
    duration: Histogram


class GatewayMetrics:
    """The metrics of the hot routes."""

    def __init__(
        self,
        registry: CollectorRegistry,
        instances: Sequence[Instance],
        admission: Admission[Instance],
    ) -> None:
        self._requests = Counter(
            "moe_gateway_requests",
            "Requests answered; status is 2xx, 4xx, 5xx, or gone when the caller hung up.",
            ["model", "instance", "status"],
            registry=registry,
        )
        self._tokens = Counter(
            "moe_gateway_tokens",
            "Tokens, as the servers count them; kind is prompt or completion.",
            ["model", "instance", "kind"],
            registry=registry,
        )
        self._first_byte = Histogram(
            "moe_gateway_first_byte_seconds",
            "From the request to the first byte of its answer.",
            ["model", "instance"],
            buckets=FIRST_BYTE_BUCKETS,
            registry=registry,
        )
        self._duration = Histogram(
            "moe_gateway_duration_seconds",
            "From the request to the end of its answer.",
            ["model", "instance"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._queued = Histogram(
            "moe_gateway_queue_seconds",
            "What requests waited that had to wait for a slot.",
            ["model"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self._failovers = Counter(
            "moe_gateway_failovers",
            "Requests that went on to another instance, by the one that failed.",
            ["model", "instance"],
            registry=registry,
        )
        self._counts: dict[tuple[str, str, str], Counter] = {}
        self._meters: dict[tuple[str, str], Meters] = {}
        registry.register(InstanceCollector(instances, admission))

    def count(self, model: str, instance: str, status: str) -> None:
        """One request is over."""
        where = (model, instance, status)
        counter = self._counts.get(where)
        if counter is None:
            counter = self._counts[where] = self._requests.labels(*where)
        counter.inc()

    def of(self, model: str, instance: str) -> Meters:
        """What is measured of answered requests.

        Its counters are there from the first answer on, at zero: Prometheus sees no rise where a
        series begins with 1, so the first failure of an instance would not be seen.
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
                self._first_byte.labels(model, instance),
                self._duration.labels(model, instance),
            )
        return meters

    def used(self, model: str, instance: str, usage: TokenCount) -> None:
        """What one answer cost."""
        meters = self.of(model, instance)
        meters.prompt.inc(usage.prompt)
        meters.completion.inc(usage.completion)

    def queued(self, model: str, seconds: float) -> None:
        """A request waited for its turn."""
        self._queued.labels(model).observe(seconds)

    def failed_over(self, model: str, instance: str) -> None:
        self._failovers.labels(model, instance).inc()

    def forget(self, instance: str) -> None:
        """Drop what was counted of an instance that is gone: each place that it had was another."""
        for metric in (
            self._requests,
            self._tokens,
            self._first_byte,
            self._duration,
            self._failovers,
        ):
            metric.remove_by_labels({"instance": instance})
        self._counts = {where: one for where, one in self._counts.items() if where[1] != instance}
        self._meters = {where: one for where, one in self._meters.items() if where[1] != instance}


class InstanceCollector(Collector):
    """Gauges that are read off the watch and its instances when somebody looks."""

    def __init__(self, instances: Sequence[Instance], admission: Admission[Instance]) -> None:
        self._instances, self._admission = instances, admission

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily(
            "moe_gateway_instance_up", "1: it answers its health checks.", labels=["instance"]
        )
        busy = GaugeMetricFamily(
            "moe_gateway_in_flight", "Requests under way on an instance.", labels=["instance"]
        )
        circuit = GaugeMetricFamily(
            "moe_gateway_circuit_open",
            "1: the instance failed again and again and is left alone for some seconds.",
            labels=["instance"],
        )
        waiting = GaugeMetricFamily(
            "moe_gateway_waiting", "Requests that wait for a slot.", labels=["model"]
        )
        for model, count in self._admission.waiting_for().items():
            waiting.add_metric([model], count)
        serves = GaugeMetricFamily(
            "moe_gateway_instance_serves",
            "1: this model runs on the instance and can be asked.",
            labels=["instance", "expert", "model"],
        )
        for instance in self._instances:
            up.add_metric([instance.label], float(instance.healthy))
            busy.add_metric([instance.label], instance.in_flight)
            circuit.add_metric([instance.label], float(instance.circuit.state != "closed"))
            if instance.healthy and instance.expert and instance.model:
                serves.add_metric([instance.label, instance.expert, instance.model], 1)
        return [up, busy, circuit, waiting, serves]
