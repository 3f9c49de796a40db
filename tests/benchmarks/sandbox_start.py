"""Starting a program in the sandbox against starting it as a plain process."""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipecatapp.sandbox import Sandbox
from pipecatapp.sandbox.bubblewrap import find, python
from tests.benchmarks.entry import Benchmark, Pair

PAIRS = 15
STARTS = 5
"""The fastest of so many in a row counts: what else the machine does only ever makes one slower."""
COMMAND = [python(), "-I", "-c", "print(1)"]
"""The least that code.run is used for: Python, and one line."""


def measure() -> list[Pair]:
    """Both in turns, the first one changing from pair to pair."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sandboxed(folder), plain(folder)
        return [pair(folder, turn) for turn in range(PAIRS)]


def pair(folder: Path, turn: int) -> Pair:
    """The fastest start of each side."""
    sides = [sandboxed, plain] if turn % 2 else [plain, sandboxed]
    fastest = {side: min(side(folder) for _ in range(STARTS)) for side in sides}
    return Pair(fastest[sandboxed], fastest[plain])


def sandboxed(folder: Path) -> float:
    """Milliseconds from the call to the outcome, with everything that the sandbox promises."""
    start = time.perf_counter()
    ended = asyncio.run(Sandbox().run(COMMAND, folder))
    taken = time.perf_counter() - start
    if ended.stdout.text != "1\n":
        raise RuntimeError(f"No right answer: {ended}")
    return taken * 1000


def plain(folder: Path) -> float:
    """Milliseconds of the same program without any of it, started from an event loop, too."""
    start = time.perf_counter()
    said = asyncio.run(_plain(folder))
    taken = time.perf_counter() - start
    if said != b"1\n":
        raise RuntimeError(f"No right answer: {said!r}")
    return taken * 1000


async def _plain(folder: Path) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    return said


def version() -> str:
    """Of bubblewrap and of the Python that is started."""
    told = subprocess.run([find(), "--version"], capture_output=True, text=True, check=True)
    return f"{told.stdout.strip()}, Python {sys.version.split()[0]}"


BENCHMARK = Benchmark(
    id="sandbox.start",
    about=(
        "One line of Python, from the call to its output, the fastest of five starts: in the"
        " sandbox (namespaces, filter, limits, cgroup where there is one, changed files) against a"
        " plain process."
    ),
    unit="ms",
    peer="asyncio.create_subprocess_exec",
    peer_version=version,
    goal=0.3,
    measure=measure,
    lower_is_better=True,
)
