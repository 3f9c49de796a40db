"""Every benchmark. One that is not in this list does not exist."""

from tests.benchmarks import gateway_tokens, sandbox_start

BENCHMARKS = (gateway_tokens.BENCHMARK, sandbox_start.BENCHMARK)
