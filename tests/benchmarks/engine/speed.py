"""The engine against LangGraph and DBOS on SQLite, and pydantic-graph, which keeps nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.benchmarks.engine.field import measure, versions
from tests.benchmarks.entry import Benchmark

DURABLE = ("LangGraph", "DBOS")
ALL = (*DURABLE, "pydantic-graph")
SYNC = (
    "Ours commits with synchronous=FULL and runs on uvloop, as our services do; LangGraph with"
    " durability=sync in WAL mode, DBOS as it"
    " sets SQLite up; pydantic-graph keeps nothing on the disk."
)


def benchmark(
    name: str, about: str, unit: str, work: str, peers: Sequence[str], **more: Any
) -> Benchmark:
    """A benchmark whose sides do `work`; `how` is how it is measured."""
    how: Mapping[str, Any] = more.pop("how")
    return Benchmark(
        id=f"engine.{name}",
        about=about,
        unit=unit,
        peer=peers[0],
        peer_version=lambda: versions()[peers[0]],
        measure=lambda: measure(work, peers, **how),
        lower_is_better=True,
        other_versions=_versions(peers[1:]),
        **more,
    )


def _versions(peers: Sequence[str]) -> Callable[[], Mapping[str, str]]:
    return lambda: {name: told for name, told in versions().items() if name in peers}


BENCHMARKS = (
    benchmark(
        "durable_step",
        f"A run of 200 steps one after the other; milliseconds a step, the fastest of four"
        f" runs of each side in each turn. {SYNC}",
        "ms",
        "chain",
        ALL,
        goal=4.0,
        target=0.6,
        how={"pairs": 7, "scale": 5.0, "fastest": 4},
    ),
    benchmark(
        "fanout200",
        "200 branches of two steps; in each, one of the two waits half a second. Without a barrier"
        " between first and second steps that is half a second, with one it is a whole. DBOS does"
        f" 50 branches only. {SYNC}",
        "s",
        "fan",
        ALL,
        goal=1.5,
        target=0.9,
        how={"pairs": 5},
    ),
    benchmark(
        "runs1000x3",
        "1,000 runs of 3 steps, all at the same time; seconds until the last has ended. DBOS does"
        f" 25 of them, and its figure is 40 times what they took. {SYNC}",
        "s",
        "runs",
        ALL,
        goal=4.0,
        how={"pairs": 5},
    ),
    benchmark(
        "cache_hits",
        "A second run of 200 steps whose outputs are known from the first; milliseconds a step."
        " LangGraph has its SQLite cache, and its checkpoints as before.",
        "ms",
        "cache",
        ("LangGraph",),
        goal=4.0,
        how={"pairs": 9, "scale": 5.0},
    ),
    benchmark(
        "db_bytes_200x2kB",
        "What one run of 200 steps, each of which takes and gives 2 kB, leaves on the disk.",
        "MB",
        "bytes",
        DURABLE,
        goal=4.0,
        target=2.0,
        how={"pairs": 5},
    ),
)
