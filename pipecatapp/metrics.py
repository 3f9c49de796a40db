"""The figures of runs and their steps. Labels are bounded: shipped workflows and known tools."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pipecatapp.workflow import RunSummary
from pipecatapp.workflow.storage import ToolTime

ENDINGS = ("done", "failed", "cancelled")
SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)


class RunMetrics:
    """Counts what ends: runs, nodes, calls of tools, tokens."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.runs = Counter(
            "pipecatapp_runs_total",
            "Runs that ended, by workflow and status.",
            ["workflow", "status"],
            registry=registry,
        )
        self.run_seconds = Histogram(
            "pipecatapp_run_seconds",
            "Seconds from the start of a run to its end.",
            ["workflow"],
            buckets=SECONDS,
            registry=registry,
        )
        self.node_seconds = Histogram(
            "pipecatapp_node_seconds",
            "Duration of a node instance in seconds, by tool and status.",
            ["tool", "status"],
            buckets=SECONDS,
            registry=registry,
        )
        self.tool_calls = Counter(
            "pipecatapp_tool_calls_total",
            "Completed tool calls, by tool and status.",
            ["tool", "status"],
            registry=registry,
        )
        self.tokens = Counter(
            "pipecatapp_tokens_total",
            "Tokens of model calls: prompt and completion.",
            ["kind"],
            registry=registry,
        )
        self.running = Gauge("pipecatapp_runs_running", "Active runs.", registry=registry)
        self.listeners = Gauge(
            "pipecatapp_event_listeners", "Open event streams of runs.", registry=registry
        )

    def expect(self, workflows: Collection[str], tools: Collection[str]) -> None:
        """Create series at zero: Prometheus sees no increase where a series starts with 1."""
        for status in ENDINGS:
            for workflow in workflows:
                self.runs.labels(workflow, status)
            for tool in tools:
                self.tool_calls.labels(tool, status)
                self.node_seconds.labels(tool, status)
        for workflow in workflows:
            self.run_seconds.labels(workflow)
        for kind in ("prompt", "completion"):
            self.tokens.labels(kind)

    def ended(self, run: RunSummary, calls: Iterable[ToolTime], *, workflow: str) -> None:
        """Count a run that has ended, and its calls of tools."""
        self.runs.labels(workflow, run.status).inc()
        self.run_seconds.labels(workflow).observe(run.seconds or 0)
        self.tokens.labels("prompt").inc(run.tokens.prompt)
        self.tokens.labels("completion").inc(run.tokens.completion)
        for call in calls:
            self.tool_calls.labels(call.tool, call.status).inc()
            self.node_seconds.labels(call.tool, call.status).observe(call.seconds)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Counts one event stream while it is open."""
        self.listeners.inc()
        try:
            yield
        finally:
            self.listeners.dec()
