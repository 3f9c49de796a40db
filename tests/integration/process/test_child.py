"""Child processes: their groups, the order in which they are ended, and how they ended."""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from hearth.process.child import KILL, Child, StopOrder, Streams

PIPES = Streams(stdin=PIPE, stdout=PIPE)
LONG = 60.0
"""Seconds that no test waits for."""

AT_END_OF_INPUT = "import sys; print('up', flush=True); sys.stdin.read(); sys.exit(3)"
AT_TERM = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
print('up', flush=True)
while True: signal.pause()
"""
NEVER = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('up', flush=True)
while True: signal.pause()
"""
WITH_CHILD = """
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, '-c', 'import signal; signal.pause()'],
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
)
print(child.pid, flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def started(program: str, *, new_group: bool = True) -> AsyncIterator[tuple[Child, str]]:
    """Run the program; yields it and the first line of its output."""
    child = await Child.spawn(sys.executable, "-c", program, streams=PIPES, new_group=new_group)
    try:
        assert child.process.stdout is not None
        yield child, (await child.process.stdout.readline()).decode().strip()
    finally:
        await child.stop(KILL)


@pytest.mark.parametrize("new_group", [True, False], ids=["group", "alone"])
@pytest.mark.parametrize(
    ("program", "order", "how"),
    [
        pytest.param(AT_END_OF_INPUT, StopOrder(stdin=LONG), "exit code 3", id="input"),
        pytest.param(AT_TERM, StopOrder(term=LONG), "exit code 4", id="term"),
        pytest.param(AT_TERM, StopOrder(stdin=0.01, term=LONG), "exit code 4", id="both"),
        pytest.param(NEVER, StopOrder(stdin=0.01, term=0.01), "SIGKILL", id="neither"),
        pytest.param(AT_TERM, KILL, "SIGKILL", id="kill"),
    ],
)
async def test_stop_follows_its_order_and_then_kills(
    program: str, order: StopOrder, how: str, *, new_group: bool
) -> None:
    """A program that finishes its work in time is not killed, and one that does not is."""
    async with started(program, new_group=new_group) as (child, _):
        assert child.running
        assert child.ended_with == ""
        assert child.resident > 0

        assert await child.stop(order) == how

        assert not child.running
        assert child.ended_with == how
        assert child.resident == 0
        assert await child.stop(order) == how  # a second stop changes nothing


async def test_stop_skips_to_the_kill_when_it_is_forced_or_cancelled() -> None:
    """Neither a second Ctrl-C nor a cancelled task waits for a program that does not react."""
    force = asyncio.Event()
    force.set()
    async with started(NEVER) as (child, _):
        assert await child.stop(StopOrder(term=LONG), force=force) == "SIGKILL"

    async with started(NEVER) as (child, _):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await child.stop(StopOrder(term=LONG))
        assert await child.wait() == "SIGKILL"


async def test_nothing_of_a_group_is_left_after_the_end_of_its_process() -> None:
    """A child of a crashed program would keep its port and its memory."""
    async with started(WITH_CHILD) as (child, line):
        grandchild = psutil.Process(int(line))

        child.process.send_signal(signal.SIGKILL)
        assert await child.wait() == "SIGKILL"

        with contextlib.suppress(psutil.NoSuchProcess):
            assert grandchild.wait(10) is None
        assert not grandchild.is_running()


async def test_a_process_ends_with_its_parent_even_if_that_is_killed(tmp_path: Path) -> None:
    """A server that outlives its service would keep its memory, and nothing would know of it."""
    program = tmp_path / "parent.py"
    program.write_text(
        "import asyncio, sys\n"
        "from hearth.process.child import Child\n"
        "async def main():\n"
        "    child = await Child.spawn(sys.executable, '-c',\n"
        "        'import signal; print(1, flush=True); signal.pause()', with_parent=True)\n"
        "    print(child.pid, flush=True)\n"
        "    await child.wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await Child.spawn(sys.executable, program, streams=PIPES)
    assert parent.process.stdout is not None
    lines = [await parent.process.stdout.readline() for _ in range(2)]  # up, with its parent's mark
    (pid,) = (int(line) for line in lines if line != b"1\n")
    child = psutil.Process(pid)

    parent.process.kill()

    with contextlib.suppress(psutil.NoSuchProcess):
        child.wait(10)
    assert not child.is_running()
    assert await parent.stop(KILL) == "SIGKILL"
