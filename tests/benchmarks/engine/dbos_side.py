"""DBOS on SQLite, as it sets it up: a rollback journal, every commit on the disk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dbos import DBOS

from tests.benchmarks.engine.side import Timed, serve

SLOW = 0.5
SOME = 25


@DBOS.step()
async def echo(text: str) -> str:
    return text


@DBOS.step()
async def wait(text: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return text


@DBOS.workflow()
async def chain(text: str, steps: int) -> str:
    for _ in range(steps):
        text = await echo(text)
    return text


@DBOS.workflow()
async def branch(text: str, number: int) -> str:
    first, second = (SLOW, 0.0) if number % 2 else (0.0, SLOW)
    return await wait(await wait(text, first), second)


@DBOS.workflow()
async def fan(text: str, branches: int) -> list[str]:
    """A child each, because steps that run at the same time are known by their order."""
    handles = [await DBOS.start_workflow_async(branch, text, i) for i in range(branches)]
    return [await handle.get_result() for handle in handles]


class Dbos:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def chain(self, text: str) -> float:
        with Timed() as timed:
            await chain(text, 200)
        return timed.seconds

    async def fan(self, text: str) -> float:
        """50 branches, because 200 take it half a minute."""
        with Timed() as timed:
            await fan(text, 50)
        return timed.seconds

    async def runs(self, text: str) -> float:
        """So many as take seconds, not minutes; told as if they were 1,000."""
        with Timed() as timed:
            handles = [await DBOS.start_workflow_async(chain, text, 3) for _ in range(SOME)]
            await asyncio.gather(*(handle.get_result() for handle in handles))
        return timed.seconds * 1000 / SOME

    async def cache(self, text: str) -> float:
        raise NotImplementedError("DBOS takes no output from another run")

    async def bytes(self, text: str) -> float:
        """What one more run adds, because a process has one database."""
        before = self._size()
        await chain(text, 200)
        return (self._size() - before) / 1e6

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self._folder.glob("dbos.db*"))


@contextlib.asynccontextmanager
async def opening(folder: Path) -> AsyncIterator[Dbos]:
    config: Any = {
        "name": "bench",
        "system_database_url": f"sqlite:///{folder}/dbos.db",
        "run_admin_server": False,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        yield Dbos(folder)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    serve(opening)
