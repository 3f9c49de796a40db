"""Every benchmark. One that is not in this list does not exist."""

from tests.benchmarks import (
    gateway_affinity,
    gateway_prefix,
    gateway_tokens,
    knowledge,
    sandbox_start,
)
from tests.benchmarks.cluster import speed as cluster
from tests.benchmarks.code import edits, kills, localise, no_model, repair
from tests.benchmarks.engine import growth
from tests.benchmarks.engine import speed as engine
from tests.benchmarks.evolution import honesty, real
from tests.benchmarks.gateway import aborts, endurance, speed
from tests.benchmarks.voice import hearing, talk
from tests.benchmarks.web import compare, evolution

BENCHMARKS = (
    *engine.BENCHMARKS,
    *growth.BENCHMARKS,
    *aborts.BENCHMARKS,
    *endurance.BENCHMARKS,
    gateway_affinity.BENCHMARK,
    gateway_prefix.BENCHMARK,
    *gateway_tokens.BENCHMARKS,
    *speed.BENCHMARKS,
    sandbox_start.BENCHMARK,
    *knowledge.BENCHMARKS,
    hearing.BENCHMARK,
    edits.BENCHMARK,
    kills.BENCHMARK,
    localise.BENCHMARK,
    no_model.BENCHMARK,
    repair.BENCHMARK,
    compare.BENCHMARK,
    evolution.BENCHMARK,
    honesty.BENCHMARK,
    real.BENCHMARK,
    *talk.BENCHMARKS,
    # Last: they take a quarter of an hour, and hosts.
    *cluster.BENCHMARKS,
)
