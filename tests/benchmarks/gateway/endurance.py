"""What the gateway holds: its memory, and whether hours of work leave anything behind."""

import sys
import time
from collections.abc import Iterator

import httpx2

from tests.benchmarks.entry import Benchmark, Pair
from tests.benchmarks.gateway.field import (
    HOST,
    RUNS_ON,
    Field,
    Way,
    field,
    hang_up,
    nginx_version,
    other_versions,
    server_version,
    wait_until,
)

TURNS = 5
ROUNDS = 12
WARM = 4
"""Rounds until every pool, cache and counter has its size."""
ABORTS = 100
FLAT = ("descriptors", "tasks")
SLACK = 8
"""What pools may hold more at one moment than at another one."""


def memory() -> list[Pair]:
    """Resident memory of all processes of a way, after some thousand answers of each kind."""
    with field() as ways:
        return list(_memories(ways))


def _memories(ways: Field) -> Iterator[Pair]:
    for turn in range(TURNS):
        for way in (ways.gateway, ways.nginx):
            way.load(16, 1.0, stream=False)
            way.load(64, 1.0, stream=True)
        ways.litellm.load(4, 1.0, stream=False)
        found = {way.name: way.memory() for way in (ways.gateway, ways.nginx, ways.litellm)}
        sys.stderr.write(f"turn {turn + 1} of {TURNS}: {found}\n")
        yield Pair(found["gateway"], found["nginx"], {"LiteLLM proxy": found["LiteLLM proxy"]})


def soak() -> list[Pair]:
    """Rounds of whole answers, streams and aborts; each later round against the last warm one."""
    with field() as ways:
        seen = [_round(ways, number) for number in range(ROUNDS)]
    warm = seen[WARM - 1]
    if left := [name for name in FLAT if seen[-1][name] > warm[name] + SLACK]:
        raise RuntimeError(f"It holds more and more {' and '.join(left)}: {seen}")
    also = {f"{name} when warm": warm[name] for name in FLAT}
    return [
        Pair(
            one["memory"],
            warm["memory"],
            also=also | {f"{name} at the end": one[name] for name in FLAT},
        )
        for one in seen[WARM:]
    ]


def _round(ways: Field, number: int) -> dict[str, float]:
    way = ways.gateway
    way.load(16, 3.0, stream=False)
    way.load(64, 3.0, stream=True)
    _abort(ways, way)
    time.sleep(1)
    found = {"memory": way.memory(), "descriptors": way.descriptors(), "tasks": _tasks(way)}
    sys.stderr.write(f"round {number + 1} of {ROUNDS}: {found}\n")
    return found


def _abort(ways: Field, way: Way) -> None:
    """Callers that hang up in prefill; the models must all be left in peace again."""
    body = {"model": "fake", "stream": True, "max_tokens": 64}
    body["messages"] = [{"role": "user", "content": "Please hold the line."}]
    connections = [hang_up(way, body) for _ in range(ABORTS)]
    wait_until(lambda: sum(one["held"] for one in ways.stats()) == ABORTS, 30)
    for connection in connections:
        connection.close()
    if not wait_until(lambda: sum(one["held"] for one in ways.stats()) == 0, 30):
        raise TimeoutError(f"Aborted requests are still held: {ways.stats()}")


def _tasks(way: Way) -> float:
    text = httpx2.get(f"http://{HOST}:{way.port}/metrics", trust_env=False).text
    lines = (line.split() for line in text.splitlines() if line.startswith("moe_gateway_tasks "))
    return next(float(value) for _, value in lines)


RSS = Benchmark(
    id="gateway.rss",
    about=(
        "Resident memory after some thousand whole answers and streams. Ours is one process;"
        f" nginx is its master and one worker; the LiteLLM proxy has one worker. {RUNS_ON}"
    ),
    unit="MB",
    peer="nginx",
    peer_version=nginx_version,
    goal=None,
    target=60,
    measure=memory,
    lower_is_better=True,
    other_versions=other_versions,
)
SOAK = Benchmark(
    id="gateway.soak",
    about=(
        f"{ROUNDS} rounds, each 3 s of whole answers by 16 callers, 3 s of streams by 64, and"
        f" {ABORTS} callers who hang up: resident memory after each of the later rounds against"
        f" that after round {WARM}. Open descriptors (connections) and tasks of the event loop are"
        " to be the same, too."
    ),
    unit="MB",
    peer="the same process, when warm",
    peer_version=server_version,
    goal=0.97,
    measure=soak,
    lower_is_better=True,
)
BENCHMARKS = (RSS, SOAK)
