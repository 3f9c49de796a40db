"""Comparing two large runs over HTTP. The peer is reading the two runs, as a page would have to."""

import tempfile
import time
from pathlib import Path

import httpx2
import uvloop

from hearth.service.version import hearth_version
from pipecatapp.workflow import Engine, Ledger, load_document
from tests.benchmarks.engine.ours import chain, echo, pure
from tests.benchmarks.entry import Benchmark, Pair
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.agent.test_restart import process

NODES, PAIRS = 600, 9


def measure() -> list[Pair]:
    """Milliseconds of `GET /api/runs/{id}/compare`, for runs of which every step differs."""
    with tempfile.TemporaryDirectory() as name:
        state = Path(name)
        runs = uvloop.run(_runs(state / "ledger.db"))
        for key in ("key", "service_key"):
            (state / key).write_text(f"sk-{key}", encoding="ascii")
        house = House(state, ScriptedGateway(), "http://127.0.0.1:9", key="sk-key")
        with process(house, state / "log"), house.client() as client:
            return [_pair(client, *runs) for _ in range(PAIRS)]


async def _runs(file: Path) -> list[str]:
    ledger = Ledger(file)
    document = load_document(chain(NODES), file="bench.yaml")
    async with Engine(ledger, tools=[echo, pure], workflows=[document]) as engine:
        runs = [await engine.start("chain", {"text": text}) for text in ("one text", "another")]
        for run in runs:
            await engine.wait(run)
    ledger.close()
    return runs


def _pair(client: httpx2.Client, one: str, other: str) -> Pair:
    began = time.perf_counter()
    answer = client.get(f"/api/runs/{one}/compare", params={"with": other}).raise_for_status()
    compared = time.perf_counter() - began
    found = answer.json()
    assert len(found["steps"]) == NODES
    assert found["first"] is not None
    began = time.perf_counter()
    for run in (one, other):
        client.get(f"/api/runs/{run}").raise_for_status()
    return Pair(compared * 1000, (time.perf_counter() - began) * 1000)


BENCHMARK = Benchmark(
    id="web.compare",
    about=(
        "Comparing two runs of 600 nodes over HTTP, of which every step differs, against reading"
        " the two runs."
    ),
    unit="ms",
    peer="reading both runs",
    peer_version=hearth_version,
    goal=None,
    measure=measure,
    lower_is_better=True,
    target=300.0,
)
