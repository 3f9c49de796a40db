"""What a benchmark measures and what it finds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Pair:
    """Both sides, measured one right after the other.

    `others` are further peers in the same turn, by name; `also` is what else was seen, by what it
    is, and is shown without being judged.
    """

    ours: float
    peer: float
    others: Mapping[str, float] = field(default_factory=dict)
    also: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Benchmark:
    """A comparison with a peer. `goal` is the ratio that we want to reach; above 1 we are better.
    None: the ratio is told, and what is wanted is the `target`.

    `measure` returns at least five pairs, interleaved, so that what else the machine does hits both
    sides alike. `lower_is_better` is for seconds and bytes. `target` is what `ours` itself shall
    come to on an idle machine with two cores: unlike a ratio it says something of one machine only.
    `other_versions` are those of the pairs' `others`. `remarks` tells, after the measurement, what
    explains it, line by line.
    """

    id: str
    about: str
    unit: str
    peer: str
    peer_version: Callable[[], str]
    goal: float | None
    measure: Callable[[], list[Pair]]
    lower_is_better: bool = False
    target: float | None = None
    other_versions: Callable[[], Mapping[str, str]] = dict
    remarks: Callable[[], list[str]] = list

    def entry(self, on: dict[str, Any]) -> dict[str, Any]:
        """Run it. The ratio is the median of the pairs' ratios, not the ratio of the medians."""
        pairs = self.measure()
        ratios = [self._ratio(pair.ours, pair.peer) for pair in pairs]
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
            "lower_is_better": self.lower_is_better,
            "target": self.target,
            "others": self._others(pairs),
            "also": {name: _middle([pair.also[name] for pair in pairs]) for name in pairs[0].also},
            "remarks": self.remarks(),
            "on": on,
        }

    def _ratio(self, ours: float, peer: float) -> float:
        return peer / ours if self.lower_is_better else ours / peer

    def _others(self, pairs: list[Pair]) -> list[dict[str, Any]]:
        versions = self.other_versions()
        return [
            {
                "name": name,
                "version": versions[name],
                "value": _middle([pair.others[name] for pair in pairs]),
                "ratio": _middle([self._ratio(pair.ours, pair.others[name]) for pair in pairs]),
            }
            for name in pairs[0].others
        ]


def _middle(values: list[float]) -> float:
    return round(median(values), 4)
