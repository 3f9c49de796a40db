"""Metrics of a launcher: the model that runs, and failed attempts with other models."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from hearth.service.metrics import new_registry
from llama_expert.settings import Settings

OUTCOMES = ("ready", "unfit", "failed")


class ExpertMetrics:
    """The launcher's figures. Labels are names of the expert's list, never a text."""

    def __init__(self, registry: CollectorRegistry, models: Sequence[str]) -> None:
        self._models = list(models)
        self._serving = Gauge(
            "llama_expert_model_serving",
            "1: this model of the list runs; 0: it does not.",
            ["model"],
            registry=registry,
        )
        self._rank = Gauge(
            "llama_expert_model_rank",
            "Position of the running model in the list: 0 is the preferred one; -1: none runs.",
            registry=registry,
        )
        self._workers = Gauge(
            "llama_expert_rpc_workers",
            "Processes on other machines that serve a part of the running model.",
            registry=registry,
        )
        self._launches = Counter(
            "llama_expert_launches_total",
            "Attempts to start a model; outcome is ready, unfit (not loaded) or failed.",
            ["model", "outcome"],
            registry=registry,
        )
        for model in self._models:
            for outcome in OUTCOMES:
                self._launches.labels(model, outcome)
        self.serving(None)

    def serving(self, model: str | None, workers: int = 0) -> None:
        """From now on this model runs, with so many RPC workers; `None`: none does."""
        for name in self._models:
            self._serving.labels(name).set(name == model)
        self._rank.set(self._models.index(model) if model is not None else -1)
        self._workers.set(workers)
        if model is not None:
            self._launches.labels(model, "ready").inc()

    def skipped(self, model: str, *, loaded: bool) -> None:
        """A model of the list was tried in vain."""
        self._launches.labels(model, "failed" if loaded else "unfit").inc()


@contextmanager
def measured(settings: Settings) -> Iterator[ExpertMetrics]:
    """Provide the metrics, at `/metrics` of a separate port if one is set."""
    registry = new_registry()
    metrics = ExpertMetrics(registry, settings.models)
    if settings.metrics_port is None:
        yield metrics
        return
    server, thread = start_http_server(settings.metrics_port, str(settings.host), registry)
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
