"""Counters and histograms as plain numbers, converted to Prometheus' format when they are read.

Only one event loop counts, so the locks that prometheus_client takes at each step are not needed.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Count:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class Spread:
    """How often a value was in each range; `bounds` are the upper ends of the ranges."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collected(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative count of each bucket, and the sum."""
        names = map(floatToGoString, (*self._bounds, inf))
        return list(zip(names, accumulate(self._counts), strict=True)), self._sum


class Counts(Collector):
    """A counter with labels."""

    def __init__(
        self, name: str, about: str, labels: Sequence[str], *, registry: CollectorRegistry
    ) -> None:
        self._family = name, about, tuple(labels)
        self._series: dict[tuple[str, ...], Count] = {}
        registry.register(self)

    def labels(self, *values: str) -> Count:
        """The counter of these values, from zero on."""
        return self._series.setdefault(values, Count())

    def remove(self, label: str, value: str) -> None:
        """Forget the series with this value."""
        at = self._family[2].index(label)
        self._series = {one: count for one, count in self._series.items() if one[at] != value}

    def collect(self) -> Iterable[Metric]:
        name, about, labels = self._family
        family = CounterMetricFamily(name, about, labels=labels)
        for values, count in self._series.items():
            family.add_metric(values, count.value)
        return [family]


class Spreads(Collector):
    """A histogram with labels."""

    def __init__(
        self,
        name: str,
        about: str,
        labels: Sequence[str],
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._family, self._bounds = (name, about, tuple(labels)), buckets
        self._series: dict[tuple[str, ...], Spread] = {}
        registry.register(self)

    def labels(self, *values: str) -> Spread:
        """The histogram of these values, empty at first."""
        return self._series.setdefault(values, Spread(self._bounds))

    def remove(self, label: str, value: str) -> None:
        """Forget the series with this value."""
        at = self._family[2].index(label)
        self._series = {one: spread for one, spread in self._series.items() if one[at] != value}

    def collect(self) -> Iterable[Metric]:
        name, about, labels = self._family
        family = HistogramMetricFamily(name, about, labels=labels)
        for values, spread in self._series.items():
            family.add_metric(values, *spread.collected())
        return [family]
