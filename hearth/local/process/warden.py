"""The supervisor's side of the warden: which process groups it ends when we cannot."""

import asyncio
import os
import subprocess
from types import TracebackType
from typing import Self

from hearth.local.process import enrol, warden_main
from hearth.process.child import BARE, Child, Streams


class Warden:
    """`async with Warden() as warden:` runs a process that ends our children if we cannot.

    If that process is killed, it is started again.
    """

    def __init__(self) -> None:
        self._reading, self._writing = -1, -1
        self._groups: set[int] = set()
        self._process: Child | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        # We keep the reading end as well: without it, a write would fail while no warden reads.
        self._reading, self._writing = os.pipe()
        self._process = await self._start()
        self._keeping = asyncio.create_task(self._keep(self._process))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._keeping is not None
        assert self._process is not None
        self._keeping.cancel()
        await asyncio.wait({self._keeping})
        os.close(self._reading)
        os.close(self._writing)
        await self._process.wait()

    @property
    def descriptor(self) -> int:
        """The descriptor that a new process must inherit to register itself."""
        return self._writing

    def enrolling(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command line of a process that enrols itself and then becomes `command`."""
        return (*BARE, enrol.__file__, str(self._writing), *command)

    def took(self, group: int) -> None:
        """This process group has enrolled itself, so the next warden must know it as well."""
        self._groups.add(group)

    def release(self, group: int) -> None:
        """Unregister a process group that has ended, because its number may be reused."""
        self._groups.discard(group)
        os.write(self._writing, b"-%d\n" % group)

    async def _start(self) -> Child:
        silent = Streams(stdin=self._reading, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return await Child.spawn(*BARE, warden_main.__file__, streams=silent)

    async def _keep(self, process: Child) -> None:
        while True:
            await process.wait()
            process = self._process = await self._start()
            for group in self._groups:
                os.write(self._writing, b"%d\n" % group)
