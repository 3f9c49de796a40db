"""Metrics of voice conversations. No label and no value contains spoken text."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pipecatapp.voice.stages import STAGES

SECONDS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20)
LAGS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5)
TROUBLES = ("model", "hearing", "speaking", "worker")
ENDINGS = ("left", "busy", "broken")
KINDS = ("spoken", "typed")
JUDGEMENTS = ("complete", "incomplete")


class VoiceMetrics:
    """Sessions, turns, and how long people waited."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._conversations(registry)
        self._waits(registry)
        self._worker(registry)

    def _conversations(self, registry: CollectorRegistry) -> None:
        """Create the metrics of conversations."""
        self.sessions = Gauge(
            "voice_sessions_running", "Active voice conversations.", registry=registry
        )
        self.ended = _counter(
            registry,
            "voice_sessions_total",
            "Ended voice conversations: left, refused as busy, or broken.",
            ending=ENDINGS,
        )
        self.turns = _counter(registry, "voice_turns_total", "Spoken or typed turns.", kind=KINDS)
        self.interruptions = Counter(
            "voice_interruptions_total",
            "Answers interrupted by speech or by typing.",
            registry=registry,
        )
        self.errors = _counter(
            registry, "voice_errors_total", "Errors in a turn, by the failed part.", part=TROUBLES
        )
        self.judged = _counter(
            registry,
            "voice_turn_judgements_total",
            "Judgements of the turn detector on a pause: complete, or incomplete (it waits).",
            judgement=JUDGEMENTS,
        )

    def _waits(self, registry: CollectorRegistry) -> None:
        """How long people waited."""
        self.v2v = Histogram(
            "voice_v2v_seconds",
            "Seconds from the end of a person's speech to the first audio of the answer.",
            buckets=SECONDS,
            registry=registry,
        )
        self.stages = Histogram(
            "voice_stage_seconds",
            "Parts of voice_v2v_seconds, by stage.",
            ["stage"],
            buckets=SECONDS,
            registry=registry,
        )
        for stage in STAGES:
            self.stages.labels(stage)
        self.barge_in = Histogram(
            "voice_barge_in_seconds",
            "Seconds from the start of a person's speech to the end of the interrupted answer.",
            buckets=SECONDS,
            registry=registry,
        )

    def _worker(self, registry: CollectorRegistry) -> None:
        """How the voice worker is."""
        self.memory = Gauge(
            "voice_worker_resident_bytes", "Memory of the voice worker.", registry=registry
        )
        self.tasks = Gauge(
            "voice_worker_tasks",
            "Tasks of the voice worker when its last session began; a steady increase is a leak.",
            registry=registry,
        )
        self.recycled = Counter(
            "voice_workers_recycled_total",
            "Voice workers replaced because of their memory, or because they ended.",
            registry=registry,
        )
        self.lag = Histogram(
            "voice_worker_lag_seconds",
            "Maximum lag of the voice worker's event loop in each second of a session.",
            buckets=LAGS,
            registry=registry,
        )

    def answered(self, stages: Mapping[str, float]) -> None:
        """A spoken turn was answered with sound."""
        self.v2v.observe(sum(stages.values()))
        for stage in STAGES:
            self.stages.labels(stage).observe(stages[stage])


def _counter(registry: CollectorRegistry, name: str, about: str, **label: Sequence[str]) -> Counter:
    """With every value of its one label from the start: a rate needs the zero before the one."""
    [(kind, values)] = label.items()
    counter = Counter(name, about, [kind], registry=registry)
    for value in values:
        counter.labels(value)
    return counter
