"""Our side: the workflow engine on a ledger, every commit on the disk (synchronous = FULL), on the
event loop that our services run on.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop
from pydantic import BaseModel

from pipecatapp.workflow import Context, Engine, Ledger, load_document, tool
from tests.benchmarks.engine.side import Timed, serve

SLOW = 0.5


class Text(BaseModel):
    text: str


@tool("bench.echo", effect="external")
async def echo(ctx: Context, text: str) -> Text:
    """Give the text back; `external`, so that nothing of it is ever taken from the cache."""
    return Text(text=text)


@tool("bench.wait", effect="external")
async def wait(ctx: Context, text: str, seconds: float) -> Text:
    """Give the text back after a while."""
    await asyncio.sleep(seconds)
    return Text(text=text)


@tool("bench.pure", effect="pure")
async def pure(ctx: Context, text: str) -> Text:
    """Give the text back; `pure`, so that it is known the next time."""
    return Text(text=text)


def chain(steps: int, use: str = "bench.echo", name: str = "chain") -> str:
    """Each step reads the one before it."""
    lines = [f"id: {name}", f"limits: {{nodes: {steps * 2}}}", "inputs: {text: text}", "steps:"]
    before = "inputs.text"
    for number in range(steps):
        given = f'{{text: "{{{{ {before} }}}}"}}'
        lines.append(f"  - {{id: s{number}, use: {use}, with: {given}}}")
        before = f"s{number}.text"
    return "\n".join([*lines, f'outputs: {{text: "{{{{ {before} }}}}"}}', ""])


def fan(branches: int) -> str:
    """Branches of two steps, in every second of which the first one is the slow one."""
    lines = ["id: fan", "limits: {nodes: 1000}", "inputs: {text: text}", "graph:"]
    for number in range(branches):
        first, second = (SLOW, 0) if number % 2 else (0, SLOW)
        for letter, read, seconds in (("a", "inputs", first), ("b", f"a{number}", second)):
            given = f'{{text: "{{{{ {read}.text }}}}", seconds: {seconds}}}'
            lines.append(f"  - {{id: {letter}{number}, use: bench.wait, with: {given}}}")
    return "\n".join([*lines, ""])


class Ours:
    """One engine, and the work it is given."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine, self._folder = engine, folder

    async def chain(self, text: str) -> float:
        with Timed() as timed:
            await self._run("chain", text)
        return timed.seconds

    async def fan(self, text: str) -> float:
        with Timed() as timed:
            await self._run("fan", text)
        return timed.seconds

    async def runs(self, text: str) -> float:
        with Timed() as timed:
            await asyncio.gather(*(self._run("three", text) for _ in range(1000)))
        return timed.seconds

    async def cache(self, text: str) -> float:
        await self._run("pure", text)
        with Timed() as timed:
            await self._run("pure", text)
        return timed.seconds

    async def bytes(self, text: str) -> float:
        async with opened(self._folder / "bytes.db") as other:
            await Ours(other, self._folder).chain(text)
        found = list(self._folder.glob("bytes.db*"))
        size = sum(file.stat().st_size for file in found)
        for file in found:
            file.unlink()
        return size / 1e6

    async def _run(self, name: str, text: str) -> None:
        ended = await self._engine.wait(await self._engine.start(name, {"text": text}))
        if ended.status != "done":
            raise RuntimeError(ended.error)


@contextlib.asynccontextmanager
async def opened(file: Path) -> AsyncIterator[Engine]:
    texts = (chain(200), chain(3, name="three"), chain(200, "bench.pure", "pure"), fan(200))
    ledger = Ledger(file)
    documents = [load_document(text, file="bench.yaml") for text in texts]
    async with Engine(ledger, tools=[echo, wait, pure], workflows=documents) as engine:
        yield engine
    ledger.close()


@contextlib.asynccontextmanager
async def opening(folder: Path) -> AsyncIterator[Ours]:
    async with opened(folder / "ledger.db") as engine:
        yield Ours(engine, folder)


if __name__ == "__main__":
    serve(opening, uvloop.new_event_loop)
