"""The voice worker as a child process: started, watched, replaced when it has grown too large.

pipecat, its models and its leaks live there. A worker that is to go finishes the sessions it has,
while new ones go to the next.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import structlog
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import WebSocketException

from hearth.process.child import Child, StopOrder, Streams
from hearth.service.ephemeral import scratch
from pipecatapp.voice.metrics import VoiceMetrics

log = structlog.get_logger()

START_SECONDS: Final = 180.0
"""A cold disk and a busy machine; usually it is five seconds."""

LOOK_SECONDS: Final = 0.1
STOP: Final = StopOrder(stdin=5.0)
LARGEST_MESSAGE: Final = 1 << 20


class WorkerFailed(Exception):
    """No conversation is possible now; the worker's own words are in the log."""


class Worker:
    """One process and the socket that it listens on."""

    def __init__(self, child: Child, path: Path) -> None:
        self.child, self.path = child, path
        self.sessions = 0

    @classmethod
    async def start(cls, path: Path, environment: Mapping[str, str], ports: str) -> Self:
        child = await Child.spawn(
            sys.executable, "-P", "-m", "pipecatapp.voice.worker", str(path), ports,
            streams=Streams(stdin=PIPE, stdout=DEVNULL), env=environment, new_group=False,
        )  # fmt: skip
        return cls(child, path)

    async def connect(self) -> ClientConnection:
        """Wait until it is warm and listens. Raises `WorkerFailed`."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while self.child.running:
                    with suppress(OSError, WebSocketException):
                        return await unix_connect(
                            str(self.path), "ws://voice/session", max_size=LARGEST_MESSAGE
                        )
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError as error:
            raise WorkerFailed(f"The voice worker did not start in {START_SECONDS:g} s.") from error
        raise WorkerFailed(f"The voice worker ended with {self.child.ended_with}.")

    async def stop(self) -> None:
        """End it; conversations that are under way break off."""
        await self.child.stop(STOP)


class Workers:
    """The worker for new sessions, and earlier workers that finish their sessions."""

    def __init__(
        self,
        environment: Mapping[str, str],
        metrics: VoiceMetrics,
        *,
        most_bytes: int,
        udp_ports: str = "",
    ) -> None:
        self._environment, self._metrics, self._most = environment, metrics, most_bytes
        self._ports = udp_ports
        self._folder: Path | None = None
        self._scratch = ExitStack()
        self._current: Worker | None = None
        self._number = 0
        self._starting = asyncio.Lock()
        self._changing: set[asyncio.Task[None]] = set()
        self._closed = False
        metrics.memory.set_function(self._resident)

    def _resident(self) -> int:
        """Return the resident memory in bytes of the worker for new sessions."""
        return 0 if self._current is None else self._current.child.resident

    async def open(self) -> None:
        """Start the first worker in advance."""
        async with self._starting:
            self._current = self._current or await self._next()

    async def close(self) -> None:
        """End every worker."""
        self._closed = True
        while self._changing:  # an interrupted start or stop would leave its process behind
            await asyncio.gather(*self._changing, return_exceptions=True)
        if self._current is not None:
            await self._current.stop()
        self._scratch.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ClientConnection]:
        """A connection to a warm worker. Raises `WorkerFailed`."""
        worker = await self._usable()
        worker.sessions += 1
        try:
            async with await worker.connect() as connection:
                yield connection
        finally:
            worker.sessions -= 1
            if worker is self._current and worker.child.resident > self._most:
                self._change(self._replace(worker, "memory"))
            elif worker is not self._current and worker.sessions == 0:
                self._change(worker.stop())

    async def _usable(self) -> Worker:
        if self._current is None:
            await self.open()
        elif not self._current.child.running:
            await asyncio.shield(self._change(self._replace(self._current, "ended")))
        assert self._current is not None
        return self._current

    async def _replace(self, worker: Worker | None, why: str) -> None:
        """Start the next worker, unless another task has done so."""
        async with self._starting:
            if self._current is not worker or self._closed:
                return
            log.warning("voice_worker_replaced", why=why)
            self._metrics.recycled.inc()
            self._current = await self._next()
        if worker is not None and worker.sessions == 0:
            await worker.stop()

    def _change(self, change: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start or stop a worker in the background of the conversation that caused it."""
        task = asyncio.create_task(change)
        self._changing.add(task)
        task.add_done_callback(self._changed)
        return task

    def _changed(self, task: asyncio.Task[None]) -> None:
        self._changing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("voice_worker_not_changed", exc_info=error)

    async def _next(self) -> Worker:
        if self._folder is None:
            self._folder = self._scratch.enter_context(scratch("hearth-voice"))
        self._number += 1
        path = self._folder / str(self._number)
        return await Worker.start(path, self._environment, self._ports)
