"""pydantic-graph, which keeps nothing on the disk: what a run costs without being durable."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic_graph import GraphBuilder, StepContext, reduce_list_append

from tests.benchmarks.engine.side import Timed, serve

SLOW = 0.5


def chain(steps: int) -> Any:
    builder: Any = GraphBuilder(input_type=str, output_type=str)

    def step(number: int) -> Any:
        async def echo(ctx: StepContext[None, None, str]) -> str:
            return ctx.inputs

        return builder.step(echo, node_id=f"s{number}")

    nodes = [builder.start_node, *(step(number) for number in range(steps)), builder.end_node]
    edges = [builder.edge_from(one).to(other) for one, other in pairwise(nodes)]
    builder.add(*edges)
    return builder.build()


def fan(branches: int) -> Any:
    builder: Any = GraphBuilder(input_type=str, output_type=list[str])

    def step(name: str, seconds: float) -> Any:
        async def wait(ctx: StepContext[None, None, str]) -> str:
            await asyncio.sleep(seconds)
            return ctx.inputs

        return builder.step(wait, node_id=name)

    join = builder.join(reduce_list_append, initial_factory=list)
    firsts = []
    for number in range(branches):
        first, second = (SLOW, 0) if number % 2 else (0, SLOW)
        one, other = step(f"a{number}", first), step(f"b{number}", second)
        builder.add(builder.edge_from(one).to(other), builder.edge_from(other).to(join))
        firsts.append(one)
    builder.add(
        builder.edge_from(builder.start_node).to(*firsts),
        builder.edge_from(join).to(builder.end_node),
    )
    return builder.build()


class PydanticGraph:
    def __init__(self) -> None:
        self._chain, self._three, self._fan = chain(200), chain(3), fan(200)

    async def chain(self, text: str) -> float:
        with Timed() as timed:
            await self._chain.run(inputs=text)
        return timed.seconds

    async def fan(self, text: str) -> float:
        with Timed() as timed:
            await self._fan.run(inputs=text)
        return timed.seconds

    async def runs(self, text: str) -> float:
        with Timed() as timed:
            await asyncio.gather(*(self._three.run(inputs=text) for _ in range(1000)))
        return timed.seconds

    async def cache(self, text: str) -> float:
        raise NotImplementedError("pydantic-graph has no cache")

    async def bytes(self, text: str) -> float:
        raise NotImplementedError("pydantic-graph keeps nothing")


@contextlib.asynccontextmanager
async def opening(folder: Path) -> AsyncIterator[PydanticGraph]:
    yield PydanticGraph()


if __name__ == "__main__":
    serve(opening)
