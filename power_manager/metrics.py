"""The metrics of the power manager."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Counts wakes and packets, and shows which machines are awake."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.awake = Gauge(
            "power_manager_machine_awake", "1 if the machine answers.", ["machine"],
            registry=registry,
        )  # fmt: skip
        self.packets = Counter(
            "power_manager_magic_packets", "Magic packets that were sent.", ["machine"],
            registry=registry,
        )  # fmt: skip
        self.sleeps = Counter(
            "power_manager_sleeps", "How often the machine was allowed to sleep.", ["machine"],
            registry=registry,
        )  # fmt: skip
        self._wakes = Counter(
            "power_manager_wakes", "Wakes by result: awake or failed.", ["machine", "result"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "power_manager_wake_seconds", "From the first packet to the first answer.",
            ["machine"], registry=registry, buckets=(1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120),
        )  # fmt: skip

    def woken(self, machine: str, result: str, seconds: float | None = None) -> None:
        """Record the end of a wake, which took so many seconds if the machine is awake."""
        self._wakes.labels(machine, result).inc()
        if seconds is not None:
            self._seconds.labels(machine).observe(seconds)
