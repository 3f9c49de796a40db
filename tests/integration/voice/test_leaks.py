"""What a conversation leaves behind: a house is spoken with for months."""

import asyncio
import gc
import json
import re
from dataclasses import asdict, dataclass

import httpx2
import numpy as np
import psutil

from tests.integration.voice.conftest import Home

WORKER = "pipecatapp.voice.worker"
SESSIONS = 100
WARM_UP = 10
"""Sessions in which threads, caches and pools come to their size."""

SPREAD = 4
"""What may be open or running at one moment and not at another."""

SLOPE_BYTES = 512 * 1024
"""Memory that a session may leave; without a collection at its end it was nine times of that."""


@dataclass(frozen=True)
class Held:
    """What the agent service, with its worker, holds while nobody talks."""

    files: int
    tcp: int
    udp: int
    threads: int
    processes: int
    tasks_of_agent: int
    tasks_of_worker: int


def held(home: Home, worker: psutil.Process) -> Held:
    """Now. The agent service runs in this process, in a thread."""
    gc.collect()
    us = psutil.Process()
    sockets = [each.type.name for one in (us, worker) for each in one.net_connections()]
    figures = httpx2.get(f"{home.house.address}/metrics", timeout=60).text
    found = re.search(r"^voice_worker_tasks (\S+)", figures, re.MULTILINE)
    assert found is not None
    tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task)]
    return Held(
        files=us.num_fds() + worker.num_fds(),
        tcp=sockets.count("SOCK_STREAM"),
        udp=sockets.count("SOCK_DGRAM"),
        threads=us.num_threads() + worker.num_threads(),
        processes=len(us.children(recursive=True)),
        tasks_of_agent=sum(not task.done() for task in tasks),
        tasks_of_worker=int(float(found[1])),
    )


async def test_sessions_leave_nothing_behind(home: Home) -> None:
    """Neither memory, nor tasks, nor ports, nor processes; every fifth session has a turn."""
    home.house.model.when(lambda request: True).say("Yes.")
    memory = []

    async def talks(times: int) -> None:
        for number in range(times):
            async with home.caller() as caller:
                if number % 5 == 0:
                    await caller.socket.send(json.dumps({"type": "text", "text": "Hello?"}))
                    await caller.hears("answered")
            await home.empty()
            memory.append(worker().memory_info().rss)

    def worker() -> psutil.Process:
        return next(c for c in psutil.Process().children() if WORKER in c.cmdline())

    async with home.caller():
        pass
    await talks(WARM_UP)
    before, process = await asyncio.to_thread(held, home, worker()), worker().pid
    await talks(SESSIONS)
    after = await asyncio.to_thread(held, home, worker())
    slope, _ = np.polyfit(range(SESSIONS), memory[-SESSIONS:], 1)

    grown = {name: value - getattr(before, name) for name, value in asdict(after).items()}

    assert worker().pid == process
    assert {name: more for name, more in grown.items() if more > SPREAD} == {}
    assert slope < SLOPE_BYTES
