"""How soon the model is left in peace when its caller hangs up."""

import sys
import time

from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.gateway.field import (
    Field,
    Way,
    field,
    hang_up,
    litellm_version,
    other_versions,
    wait_until,
)

PAIRS = 5
ABORTS = 5
"""The median of so many counts."""
LONGEST = 6.0
"""Seconds that are waited; a way that takes longer counts as so long."""


def measure(*, stream: bool) -> list[Pair]:
    with field() as ways:
        return [_pair(ways, turn, stream=stream) for turn in range(PAIRS)]


def _pair(ways: Field, turn: int, *, stream: bool) -> Pair:
    sides = [ways.gateway, ways.litellm, ways.nginx]
    found = {
        way.name: _median_ms(ways, way, stream=stream)
        for way in (sides if turn % 2 else sides[::-1])
    }
    sys.stderr.write(f"turn {turn + 1} of {PAIRS}: {found}\n")
    return Pair(found["gateway"], found["LiteLLM proxy"], {"nginx": found["nginx"]})


def _median_ms(ways: Field, way: Way, *, stream: bool) -> float:
    times = [1000 * _seconds(ways, way, stream=stream)]
    if times[0] < 1000 * LONGEST:
        times += [1000 * _seconds(ways, way, stream=stream) for _ in range(ABORTS - 1)]
    return sorted(times)[len(times) // 2]


def _seconds(ways: Field, way: Way, *, stream: bool) -> float:
    """From the caller's close to the moment at which the model sees that nobody listens."""
    body = {"model": "fake", "stream": stream, "max_tokens": 64}
    body["messages"] = [{"role": "user", "content": "Please hold the line."}]
    held, gone = _sum(ways, "held"), _sum(ways, "gone")
    connection = hang_up(way, body)
    if not wait_until(lambda: _sum(ways, "held") > held, 60):
        raise TimeoutError(f"{way.name} did not pass the request on.")
    closed = time.monotonic()
    connection.close()
    if not wait_until(lambda: _sum(ways, "gone") > gone, LONGEST):
        return LONGEST
    return max(float(one["last_gone"]) for one in ways.stats()) - closed


def _sum(ways: Field, name: str) -> int:
    return sum(int(one[name]) for one in ways.stats())


def _benchmark(name: str, about: str, *, stream: bool) -> Benchmark:
    return Benchmark(
        id=f"gateway.{name}",
        about=(
            f"{about} From the caller's close to the model's connection being closed; the median of"
            f" {ABORTS} in each turn. A connection that is still open after {LONGEST:g} s counts as"
            f" {LONGEST:g} s."
        ),
        unit="ms",
        peer="LiteLLM proxy",
        peer_version=litellm_version,
        goal=100,
        target=5,
        measure=lambda: measure(stream=stream),
        lower_is_better=True,
        other_versions=other_versions,
    )


BENCHMARKS = (
    _benchmark(
        "abort_prefill", "A caller hangs up before the first token of a stream.", stream=True
    ),
    _benchmark("abort_unary", "A caller hangs up before a whole answer is there.", stream=False),
)
