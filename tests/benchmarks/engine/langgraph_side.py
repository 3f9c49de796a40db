"""LangGraph with its SQLite checkpointer, `durability="sync"`: on the disk before the next step."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from langgraph.cache.sqlite import SqliteCache
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy
from typing_extensions import TypedDict

from tests.benchmarks.engine.side import Timed, serve

SLOW = 0.5
Step = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
NUMBERS = itertools.count()


class State(TypedDict, total=False):
    text: str


def keeping(read: str, write: str, seconds: float = 0) -> Step:
    """A node: it reads one key and writes another."""

    async def step(state: dict[str, Any]) -> dict[str, Any]:
        if seconds:
            await asyncio.sleep(seconds)
        return {write: state[read]}

    return step


def chain(steps: int, saver: Any, **more: Any) -> Any:
    """Each step has a key of its own, as each of our nodes has an output of its own."""
    keys = ["text", *(f"s{number}" for number in range(steps))]
    graph = StateGraph(TypedDict("Chain", dict.fromkeys(keys, str), total=False))  # type: ignore[operator]
    before = START
    policy = {"cache_policy": CachePolicy()} if "cache" in more else {}
    for read, write in itertools.pairwise(keys):
        graph.add_node(f"n_{write}", keeping(read, write), **policy)
        graph.add_edge(before, f"n_{write}")
        before = f"n_{write}"
    return graph.compile(checkpointer=saver, **more)


def fan(branches: int, saver: Any) -> Any:
    keys = [f"{letter}{number}" for number in range(branches) for letter in "ab"]
    graph = StateGraph(TypedDict("Fan", dict.fromkeys(["text", *keys], str), total=False))  # type: ignore[operator]
    for number in range(branches):
        first, second = (SLOW, 0) if number % 2 else (0, SLOW)
        graph.add_node(f"n_a{number}", keeping("text", f"a{number}", first))
        graph.add_node(f"n_b{number}", keeping(f"a{number}", f"b{number}", second))
        graph.add_edge(START, f"n_a{number}")
        graph.add_edge(f"n_a{number}", f"n_b{number}")
    return graph.compile(checkpointer=saver)


class LangGraph:
    def __init__(self, saver: AsyncSqliteSaver, folder: Path) -> None:
        self._folder = folder
        self._chain, self._three, self._fan = chain(200, saver), chain(3, saver), fan(200, saver)
        self._cached = chain(200, saver, cache=SqliteCache(path=str(folder / "cache.db")))

    async def chain(self, text: str) -> float:
        with Timed() as timed:
            await run(self._chain, text)
        return timed.seconds

    async def fan(self, text: str) -> float:
        with Timed() as timed:
            await run(self._fan, text)
        return timed.seconds

    async def runs(self, text: str) -> float:
        with Timed() as timed:
            await asyncio.gather(*(run(self._three, text) for _ in range(1000)))
        return timed.seconds

    async def cache(self, text: str) -> float:
        await run(self._cached, text)
        with Timed() as timed:
            await run(self._cached, text)
        return timed.seconds

    async def bytes(self, text: str) -> float:
        file = self._folder / "bytes.db"
        async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
            await run(chain(200, saver), text)
        found = list(self._folder.glob("bytes.db*"))
        size = sum(one.stat().st_size for one in found)
        for one in found:
            one.unlink()
        return size / 1e6


async def run(graph: Any, text: str) -> None:
    thread = {"configurable": {"thread_id": str(next(NUMBERS))}, "recursion_limit": 1000}
    await graph.ainvoke({"text": text}, thread, durability="sync")


@contextlib.asynccontextmanager
async def opening(folder: Path) -> AsyncIterator[LangGraph]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        yield LangGraph(saver, folder)


if __name__ == "__main__":
    serve(opening)
