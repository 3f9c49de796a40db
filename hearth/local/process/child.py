"""One process of a service: its own process group, output by line, and a stop with a time limit."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from hearth.local.process.service import Service
from hearth.local.process.warden import Warden
from hearth.process.child import Child, StopOrder, Streams

LONGEST_LINE = 1 << 20
"""Bytes; a program that writes no line end must not fill our memory."""

OUTPUT_SECONDS = 1.0
"""How long we read on after the end of a service whose output something else keeps open."""


class ServiceProcess:
    """A started service. `pid` is also the id of its process group and of its session."""

    def __init__(
        self,
        service: Service,
        child: Child,
        warden: Warden,
        reading: asyncio.Task[None],
    ) -> None:
        self.service, self.pid, self.since = service, child.pid, datetime.now(UTC)
        self._child, self._warden = child, warden
        self._ending = asyncio.create_task(self._end(reading))

    @classmethod
    async def start(
        cls, service: Service, warden: Warden, on_line: Callable[[str], None], *, folder: Path
    ) -> Self:
        """Start the service's command in `folder`; each line of its output goes to `on_line`."""
        # Not asyncio's own pipe, which reports the end of a process only when all processes that
        # inherited its output have ended as well.
        reading, writing = os.pipe()
        try:
            child = await Child.spawn(
                *warden.enrolling(service.command),
                streams=Streams(stdout=writing, stderr=subprocess.STDOUT),
                pass_fds=(warden.descriptor,),
                env=service.environment,
                cwd=folder,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        warden.took(child.pid)
        return cls(service, child, warden, asyncio.create_task(read_lines(reading, on_line)))

    async def wait(self) -> str:
        """Wait until its process and its process group have ended; returns how the process
        ended."""
        return await asyncio.shield(self._ending)

    async def stop(self, hurry: asyncio.Event) -> None:
        """SIGTERM; when its time is up or `hurry` is set, SIGKILL for all of its group."""
        await self._child.stop(StopOrder(term=self.service.stop_seconds), force=hurry)
        await self._ending

    async def _end(self, reading: asyncio.Task[None]) -> str:
        ended_with = await self._child.wait()
        await asyncio.wait({reading}, timeout=OUTPUT_SECONDS)
        reading.cancel()
        self._warden.release(self.pid)
        return ended_with


async def read_lines(pipe: int, on_line: Callable[[str], None]) -> None:
    """Call `on_line` with each line of the pipe, until all writers have closed it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(pipe, "rb", buffering=0)
    )
    rest = b""
    try:
        while data := await reader.read(65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                on_line(line.decode(errors="replace").rstrip("\r"))
            if len(rest) > LONGEST_LINE:
                on_line(rest.decode(errors="replace"))
                rest = b""
        if rest:
            on_line(rest.decode(errors="replace"))
    finally:
        transport.close()
