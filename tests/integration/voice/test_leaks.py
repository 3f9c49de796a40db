"""What a conversation leaves behind: a house is spoken with for months."""

import asyncio
import gc
import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import httpx2
import numpy as np
import psutil
import pytest

from tests.integration.agent.conftest import House
from tests.integration.speech.conftest import Speech
from tests.integration.voice.call import calling
from tests.integration.voice.conftest import Home, furnished
from tests.ports import free_base

EXTENDED_INPUTS = ["pipecatapp/voice/**", "speech/**"]
WORKER = "pipecatapp.voice.worker"
SESSIONS = 100
UDP_PORTS = 20
WARM_UP = 10
"""Sessions in which threads, caches and pools come to their size."""

SPOKEN = 40
"""Each so many-th session somebody speaks in: detector, turn, ears and all are used."""

SPREAD = 4
"""What may be open or running at one moment and not at another."""

LINGER_SECONDS = 60
"""How long a call that was hung up may wait for what the other side says to that."""

SLOPE_BYTES = 128 * 1024
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


def more(home: Home, before: Held) -> dict[str, int]:
    """What is held beyond that, and by how much."""
    now = asdict(held(home, worker()))
    grown = {name: value - getattr(before, name) for name, value in now.items()}
    return {name: by for name, by in grown.items() if by > SPREAD}


@pytest.fixture
def ports() -> range:
    """The only ports of UDP that calls may use."""
    first = free_base(range(UDP_PORTS))
    return range(first, first + UDP_PORTS)


@pytest.fixture
def home(empty_house: House, speech: Speech, ports: range) -> Iterator[Home]:
    """A house whose calls go by these ports."""
    more = {"voice_udp_ports": f"{ports[0]}-{ports[-1]}", "voice_sessions": 2}
    home = furnished(empty_house, speech, more)
    with empty_house.running():
        yield home


class People:
    """Come and go, one after the other. Every second one calls by WebRTC, which opens ports of UDP,
    and some of those speak; of the others every second one types."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._question = home.voice_of("What is the capital of France?")
        self.memory: list[int] = []
        """Resident bytes of the worker after each of them."""
        self.candidates: set[tuple[int, str]] = set()
        """The ports of calls, and of which kind they were."""

    async def come(self, times: int) -> None:
        for number in range(times):
            async with asyncio.timeout(120):
                if number % 2:
                    await self._sits(types=number % 4 == 1)
                else:
                    await self._calls(speaks=number % SPOKEN == 0)
            await self._home.empty()
            self.memory.append(worker().memory_info().rss)

    async def _calls(self, *, speaks: bool) -> None:
        async with calling(self._home) as call:
            self.candidates.update(call.candidates)
            if speaks:
                call.microphone.say(self._question)
                await call.caller.hears("answered")
                await call.loud.wait()

    async def _sits(self, *, types: bool) -> None:
        async with self._home.caller() as caller:
            if types:
                await caller.socket.send(json.dumps({"type": "text", "text": "Hello?"}))
                await caller.hears("answered")


def worker() -> psutil.Process:
    """The only one."""
    return next(c for c in psutil.Process().children() if WORKER in c.cmdline())


@pytest.mark.extended
async def test_sessions_leave_nothing_behind(home: Home, ports: range) -> None:
    """Neither memory, nor tasks, nor ports, nor processes; and no call goes beside its ports, or
    asks anybody else where it is."""
    home.house.model.when(lambda request: True).say("Yes.")
    people = People(home)
    async with home.caller():
        pass
    await people.come(WARM_UP)
    before, process = await asyncio.to_thread(held, home, worker()), worker().pid
    await people.come(SESSIONS)
    slope, _ = np.polyfit(range(SESSIONS), people.memory[-SESSIONS:], 1)
    end = time.monotonic() + LINGER_SECONDS
    while left := await asyncio.to_thread(more, home, before):
        if time.monotonic() > end:
            break
        await asyncio.sleep(2)

    assert worker().pid == process
    assert left == {}
    assert slope < SLOPE_BYTES
    assert {port for port, _ in people.candidates} <= {*ports}
    assert {kind for _, kind in people.candidates} == {"host"}
