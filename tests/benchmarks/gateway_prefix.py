"""The second turn of Claude Code: how much of its prompt a real server reads again."""

import json
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.entry import Benchmark, Pair
from tests.integration.gateway.clients.programs import Program, claude
from tests.integration.gateway.clients.real import SECONDS, coding_gateway

PAIRS = 3
ASK = ("-p", "--output-format", "json")


def measure() -> list[Pair]:
    """Conversations of two turns; of each second turn, the percentage that was not cached, by the
    count of the server itself."""
    with (
        tempfile.TemporaryDirectory() as folder,
        coding_gateway(Path(folder)) as coder,
    ):
        home = Path(folder) / "home"
        home.mkdir()
        program = claude(
            coder.url,
            home,
            ANTHROPIC_MODEL="smollm2",
            API_TIMEOUT_MS=str(SECONDS * 1000),
        )
        return [pair(program, turn) for turn in range(PAIRS)]


def pair(program: Program, turn: int) -> Pair:
    program.run(*ASK, f"Good day, number {turn}.", seconds=SECONDS)
    said = json.loads(program.run(*ASK, "--continue", "And once more.", seconds=SECONDS))
    usage = said["usage"]
    whole = usage["input_tokens"] + usage["cache_read_input_tokens"]
    read = 100 * usage["input_tokens"] / whole
    sys.stderr.write(f"pair {turn + 1} of {PAIRS}: {usage['input_tokens']} of {whole} tokens\n")
    return Pair(read, 100.0, also={"tokens of the prompt": whole})


BENCHMARK = Benchmark(
    id="gateway.prefix_reuse",
    about=(
        "The second turn of Claude Code 2.1.332 (`--continue`), with all its tools, to a"
        " llama-server with the first layer of SmolLM2 through the gateway: the percentage of its"
        " prompt that the server reads, by its own `cached_tokens`, against a server that reads all"
        " of it again."
    ),
    unit="% of the prompt",
    peer="no reuse",
    peer_version=lambda: "-",
    goal=20,
    measure=measure,
    lower_is_better=True,
    target=5,
)
