"""What a benchmark measures and what it finds."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Pair:
    """Both sides, measured one right after the other."""

    ours: float
    peer: float


@dataclass(frozen=True)
class Benchmark:
    """A comparison with a peer. `goal` is the ratio that we want to reach; above 1 we are better.

    `measure` returns at least five pairs, interleaved, so that what else the machine does hits both
    sides alike. `lower_is_better` is for seconds and bytes.
    """

    id: str
    about: str
    unit: str
    peer: str
    peer_version: Callable[[], str]
    goal: float
    measure: Callable[[], list[Pair]]
    lower_is_better: bool = False

    def entry(self, on: dict[str, Any]) -> dict[str, Any]:
        """Run it. The ratio is the median of the pairs' ratios, not the ratio of the medians."""
        pairs = self.measure()
        ratios = [p.peer / p.ours if self.lower_is_better else p.ours / p.peer for p in pairs]
        return {
            "id": self.id,
            "about": self.about,
            "ours": round(median(pair.ours for pair in pairs), 3),
            "peer": round(median(pair.peer for pair in pairs), 3),
            "peer_name": self.peer,
            "peer_version": self.peer_version(),
            "ratio": round(median(ratios), 4),
            "unit": self.unit,
            "goal": self.goal,
            "runs": len(pairs),
            "ratios": [round(ratio, 4) for ratio in ratios],
            "on": on,
        }
