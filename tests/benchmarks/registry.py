"""Every benchmark. One that is not in this list does not exist."""

from tests.benchmarks import gateway_affinity, gateway_tokens, sandbox_start
from tests.benchmarks.cluster import speed as cluster
from tests.benchmarks.engine import speed as engine
from tests.benchmarks.gateway import aborts, endurance, speed
from tests.benchmarks.voice import hearing, talk

BENCHMARKS = (
    *engine.BENCHMARKS,
    *aborts.BENCHMARKS,
    *endurance.BENCHMARKS,
    gateway_affinity.BENCHMARK,
    *gateway_tokens.BENCHMARKS,
    *speed.BENCHMARKS,
    sandbox_start.BENCHMARK,
    hearing.BENCHMARK,
    *talk.BENCHMARKS,
    # Last: they take a quarter of an hour, and hosts.
    *cluster.BENCHMARKS,
)
