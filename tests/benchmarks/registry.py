"""Every benchmark. One that is not in this list does not exist."""

from tests.benchmarks import gateway_tokens, sandbox_start
from tests.benchmarks.gateway import aborts, endurance, speed

BENCHMARKS = (
    *aborts.BENCHMARKS,
    *endurance.BENCHMARKS,
    *gateway_tokens.BENCHMARKS,
    *speed.BENCHMARKS,
    sandbox_start.BENCHMARK,
)
