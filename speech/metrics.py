"""Metrics of a speech service. No label and no value contains spoken text."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from speech.errors import SpeechError

SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 4, 10, 30)
RATIOS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1, 2, 5)
OUTCOMES = ("done", "failed", "left")


class SpeechMetrics:
    """Metrics of one speech service, by its duty."""

    def __init__(self, registry: CollectorRegistry, duty: str) -> None:
        self._duty = duty
        self.requests = Counter(
            "speech_requests_total",
            "Ended requests: done, failed, or abandoned by the caller.",
            ["duty", "outcome"],
            registry=registry,
        )
        self.seconds = Histogram(
            "speech_request_seconds",
            "Seconds from a request to its last byte.",
            ["duty"],
            buckets=SECONDS,
            registry=registry,
        )
        self.first = Histogram(
            "speech_first_sound_seconds",
            "Seconds from a request to the first audio of its answer.",
            buckets=SECONDS,
            registry=registry,
        )
        self.factor = Histogram(
            "speech_realtime_factor",
            "Seconds of processing for each second of audio; below 1 is faster than real time.",
            ["duty"],
            buckets=RATIOS,
            registry=registry,
        )
        self.waiting = Gauge(
            "speech_requests_waiting", "Requests waiting for the engine.", registry=registry
        )
        self.resident = Gauge(
            "speech_engine_resident_bytes", "Memory of the engine's process.", registry=registry
        )
        self.restarted = Counter(
            "speech_engines_restarted_total",
            "Restarts of engines, because they ended or used too much memory.",
            ["why"],
            registry=registry,
        )
        for why in ("ended", "memory"):
            self.restarted.labels(why)
        for outcome in OUTCOMES:
            self.requests.labels(duty, outcome)
        self.seconds.labels(duty)
        self.factor.labels(duty)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts one request by the way in which the block ends."""
        began, outcome = perf_counter(), "left"
        try:
            yield
            outcome = "done"
        except (SpeechError, OSError):
            outcome = "failed"
            raise
        finally:
            self.requests.labels(self._duty, outcome).inc()
            self.seconds.labels(self._duty).observe(perf_counter() - began)

    def worked(self, seconds: float, audio_seconds: float) -> None:
        """The engine took so long for so much audio."""
        if audio_seconds > 0:
            self.factor.labels(self._duty).observe(seconds / audio_seconds)
