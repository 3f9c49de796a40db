"""What each side of the benchmarks of the engine does: it takes work, and says how long it took.

    python -m tests.benchmarks.engine.SIDE FOLDER

A line on standard input names the work; the answer is what was measured, and the seconds of
processor time that it took, setting up included. This module imports nothing of ours, because the
peers run in an environment of their own.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

SHORT, LONG = "some text", "x" * 2000


class Side(Protocol):
    """Seconds, and for `bytes` megabytes; `text` is what each step takes and gives."""

    async def chain(self, text: str) -> float:
        """One run of 200 steps, one after the other."""
        ...

    async def fan(self, text: str) -> float:
        """One run of 200 branches of two steps; of each two one waits half a second."""
        ...

    async def runs(self, text: str) -> float:
        """1,000 runs of 3 steps at the same time."""
        ...

    async def cache(self, text: str) -> float:
        """A second run of 200 steps whose outputs are known."""
        ...

    async def bytes(self, text: str) -> float:
        """What lies on the disk after `chain` on a new file."""
        ...


class Timed:
    """Seconds of a block."""

    def __enter__(self) -> Self:
        self.seconds = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self.seconds


def serve(
    opening: Callable[[Path], AbstractAsyncContextManager[Side]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Do the work that comes on standard input, until it ends, on the loop of `new_loop`."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(opening, Path(sys.argv[1])))


async def _serve(opening: Callable[[Path], AbstractAsyncContextManager[Side]], root: Path) -> None:
    async with opening(root) as side:
        loop = asyncio.get_running_loop()
        while work := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            busy = time.process_time()
            taken = await getattr(side, work)(LONG if work == "bytes" else SHORT)
            sys.stdout.write(f"{taken!r} {time.process_time() - busy!r}\n")
            sys.stdout.flush()
