"""The RPC workers of the cluster: processes on other machines that hold a part of a model.

Each is an instance of the service `llama-rpc` in Consul; the healthy ones are used.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from hearth.cluster.watch import ConsulAgent, ServiceInstance, Services, ServiceWatch
from hearth.service.names import LLAMA_RPC

FIRST_SECONDS: Final = 10.0
"""How long the first launch waits for Consul's word on the workers."""

SETTLE_SECONDS: Final = 2.0
"""Seconds in which several changes of workers count as one."""

SHARE: Final = 2
"""A worker lends half of its machine's memory: the rest is for what runs there already."""


class Workers:
    """The healthy workers, followed; `run` until cancelled."""

    def __init__(self, agent: ConsulAgent) -> None:
        self._watch = ServiceWatch(agent, wanted=lambda name: name == LLAMA_RPC, changed=self._take)
        self._memory: dict[str, int] = {}
        self._moved = asyncio.Event()
        self._asked = False

    async def run(self) -> None:
        """Follow them; never returns by itself."""
        await self._watch.run()

    async def now(self) -> tuple[str, ...]:
        """Return their addresses, host:port; the first call waits some seconds for Consul."""
        if not self._asked:
            self._asked = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), FIRST_SECONDS)
            # the list of services arrives first, then the instances of each
            await asyncio.sleep(SETTLE_SECONDS)
        return tuple(sorted(self._memory))

    def memory(self, addresses: tuple[str, ...]) -> int:
        """Bytes that these workers lend together."""
        return sum(self._memory.get(address, 0) for address in addresses)

    async def differ_from(self, before: tuple[str, ...]) -> None:
        """Return when the set is another one, and has been for a moment."""
        while True:
            while tuple(sorted(self._memory)) == before:
                self._moved.clear()
                await self._moved.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            if tuple(sorted(self._memory)) != before:
                return

    def _take(self, services: Services) -> None:
        found = services.get(LLAMA_RPC, ())
        self._memory = {f"{one.address}:{one.port}": lent(one.meta) for one in found if able(one)}
        self._moved.set()


def able(worker: ServiceInstance) -> bool:
    """Whether Consul calls it healthy: a worker that does not answer ends the engine."""
    return worker.state == "passing"


def lent(meta: Mapping[str, str]) -> int:
    """Return the bytes that a worker lends, a share of `memory_bytes` of its job."""
    told = meta.get("memory_bytes", "")
    return int(told) // SHARE if told.isdecimal() else 0
