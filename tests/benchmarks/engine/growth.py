"""How work grows with the size of a run, a document or a ledger. The peer is the same at a quarter
of the size, four times: a ratio of 1 is linear growth, 0.25 quadratic growth.
"""

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx2
import uvloop

from hearth.service.version import hearth_version
from pipecatapp.application import retention as keeping
from pipecatapp.workflow import Engine, Ledger, compile_workflow, load_document
from tests.benchmarks.engine.ours import chain, echo, pure
from tests.benchmarks.entry import Benchmark, Pair
from tests.integration.agent.conftest import House, ScriptedGateway
from tests.integration.agent.test_restart import process

PAIRS = 5
STEPS, NODES, RUNS = 10_000, 5_000, 10_000
QUARTER = 4
LOOP = """
id: loop
limits: {nodes: 100000}
inputs: {items: list of integer}
steps:
  - id: each
    for: {each: "{{ inputs.items }}", parallel: 50}
    use: bench.pure
    with: {text: "item {{ item }}"}
outputs: {count: "{{ each.count }}"}
"""


def view10k() -> list[Pair]:
    """Seconds of `GET /api/runs/{id}`; beside it, `/health` is asked again and again."""
    with tempfile.TemporaryDirectory() as name:
        state = Path(name)
        runs = [uvloop.run(_run(state / "ledger.db", size)) for size in (STEPS, STEPS // QUARTER)]
        for key in ("key", "service_key"):
            (state / key).write_text(f"sk-{key}", encoding="ascii")
        house = House(state, ScriptedGateway(), "http://127.0.0.1:9", key="sk-key")
        with process(house, state / "log"), house.client() as client:
            return [_viewed(client, *runs) for _ in range(PAIRS)]


def _viewed(client: httpx2.Client, large: str, small: str) -> Pair:
    with _watching(str(client.base_url)) as slowest:
        seconds = _seconds(lambda: client.get(f"/api/runs/{large}").raise_for_status())
        health = max(slowest) * 1000
    quarter = _seconds(lambda: client.get(f"/api/runs/{small}").raise_for_status())
    return Pair(seconds, quarter * QUARTER, also={"the slowest /health meanwhile, ms": health})


@contextlib.contextmanager
def _watching(address: str) -> Iterator[list[float]]:
    """The seconds that each of many calls of `/health` takes."""
    over, taken = threading.Event(), [0.0]

    def ask() -> None:
        with httpx2.Client(base_url=address, trust_env=False) as client:
            while not over.wait(0.01):
                taken.append(_seconds(lambda: client.get("/health/live")))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


async def _run(file: Path, steps: int) -> str:
    """The id of a run of so many steps."""
    async with _opened(file, LOOP) as engine:
        run = await engine.start("loop", {"items": list(range(steps))})
        await engine.wait(run)
    return run


@contextlib.asynccontextmanager
async def _opened(file: Path, *texts: str) -> AsyncIterator[Engine]:
    ledger = Ledger(file)
    documents = [load_document(text, file="bench.yaml") for text in texts]
    async with Engine(ledger, tools=[echo, pure], workflows=documents) as engine:
        yield engine
    ledger.close()


def compile5k() -> list[Pair]:
    """Seconds from a checked document to its plan."""
    tools = {tool.name: tool for tool in (echo, pure)}
    large, small = (
        load_document(chain(size), file="bench.yaml") for size in (NODES, NODES // QUARTER)
    )

    def compiled() -> Pair:
        seconds = _seconds(lambda: compile_workflow(large, tools))
        quarter = _seconds(lambda: compile_workflow(small, tools))
        return Pair(seconds, quarter * QUARTER)

    return [compiled() for _ in range(PAIRS)]


def prune10k() -> list[Pair]:
    """Milliseconds of the slowest run of one step, while 10,000 runs are removed and without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uvloop.run(_filled(folder / "full.db"))
        return [uvloop.run(_pruned(folder, turn)) for turn in range(PAIRS)]


async def _filled(file: Path) -> None:
    async with _opened(file, chain(3)) as engine:
        for _ in range(RUNS // 500):
            runs = [await engine.start("chain", {"text": "some text"}) for _ in range(500)]
            await asyncio.gather(*(engine.wait(run) for run in runs))


async def _pruned(folder: Path, turn: int) -> Pair:
    file = folder / f"{turn}.db"
    shutil.copy(folder / "full.db", file)
    async with _opened(file, chain(1, name="one")) as engine:
        idle = await _slowest(engine, asyncio.create_task(asyncio.sleep(3)))
        before, began = file.stat().st_size, time.perf_counter()
        prune = asyncio.create_task(keeping.prune(engine, before="9", keep=0))
        slowest = await _slowest(engine, prune)
        seconds = time.perf_counter() - began
    with contextlib.closing(sqlite3.connect(file)) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    also = {"seconds of the whole": seconds, "MB before": before / 1e6}
    also["MB after"] = file.stat().st_size / 1e6
    return Pair(slowest, idle, also=also)


async def _slowest(engine: Engine, meanwhile: "asyncio.Task[object]") -> float:
    """Milliseconds of the slowest run that is started and ends while something else goes on."""
    slowest = 0.0
    while not meanwhile.done():
        began = time.perf_counter()
        await engine.wait(await engine.start("one", {"text": "some text"}))
        slowest = max(slowest, time.perf_counter() - began)
        await asyncio.sleep(0.005)
    await meanwhile
    return slowest * 1000


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _benchmark(
    name: str, about: str, unit: str, peer: str, goal: float | None, target: float
) -> Benchmark:
    measures = {"view10k": view10k, "compile5k": compile5k, "prune10k": prune10k}
    return Benchmark(
        id=f"engine.{name}",
        about=about,
        unit=unit,
        peer=peer,
        peer_version=hearth_version,
        goal=goal,
        measure=measures[name],
        lower_is_better=True,
        target=target,
    )


BENCHMARKS = (
    _benchmark(
        "view10k",
        "Reading a run of 10,000 steps over HTTP, against four times a run of 2,500 steps.",
        "s",
        "a quarter, four times",
        0.8,
        1.0,
    ),
    _benchmark(
        "compile5k",
        "Compiling a document of 5,000 nodes, against four times one of 1,250 nodes.",
        "s",
        "a quarter, four times",
        0.8,
        1.0,
    ),
    _benchmark(
        "prune10k",
        "The slowest run of one step while 10,000 runs are removed, against the slowest without.",
        "ms",
        "without a prune",
        None,
        100.0,
    ),
)
