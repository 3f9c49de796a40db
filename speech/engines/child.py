"""Processes of engines: requests by a pipe, restarts when they end or grow too large."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import structlog

from hearth.process.child import KILL, Child, Streams
from speech.blocks import packed
from speech.errors import EngineFailed
from speech.metrics import SpeechMetrics
from speech.settings import engine_environment

log = structlog.get_logger()

START_SECONDS: Final = 120.0
"""A cold disk and a busy machine; usually it is two seconds."""

ANSWER_SECONDS: Final = 300.0
"""Seconds without output after which a process counts as hung: ten minutes of audio need less."""

LEAST_TURNS: Final = 5
"""A process that is too large from its beginning is not replaced more often than this."""


class Running(Protocol):
    """A process that is warm."""

    @property
    def child(self) -> Child: ...
    async def end(self) -> None: ...


R = TypeVar("R", bound=Running)


class Keeper(Generic[R]):
    """Runs one warm process of an engine; requests are processed one after the other.

    If it has ended, the next request restarts it. If it has grown larger than `most_bytes`, it is
    replaced: the new process is started and warmed up before it takes over between two requests, so
    that no request waits for it. During that time there are two processes.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Awaitable[R]],
        *,
        most_bytes: int,
        metrics: SpeechMetrics,
    ) -> None:
        self._name, self._start, self._most, self._metrics = name, start, most_bytes, metrics
        self._turn = asyncio.Lock()
        self._current: R | None = None
        self._turns = 0
        self._replacing: asyncio.Task[None] | None = None

    async def open(self) -> R:
        """Start it; it is warm afterwards. Raises `EngineFailed`."""
        self._current, self._turns = await self._start(), 0
        log.info("engine_started", engine=self._name, pid=self._current.child.pid)
        return self._current

    async def close(self) -> None:
        """End it; what it is doing is lost."""
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.gather(self._replacing, return_exceptions=True)
        if self._current is not None:
            await self._current.end()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[R]:
        """The process, for one piece of work. Raises `EngineFailed`."""
        async with self._turn:
            current = self._current
            if current is None or not current.child.running:
                self._metrics.restarted.labels("ended").inc()
                log.warning("engine_ended", engine=self._name)
                current = await self.open()
            try:
                yield current
            finally:
                self._weigh(current)

    def _weigh(self, current: R) -> None:
        self._turns += 1
        size = current.child.resident
        self._metrics.resident.set(size)
        due = size > self._most and self._turns >= LEAST_TURNS
        if due and (self._replacing is None or self._replacing.done()):
            self._replacing = asyncio.create_task(self._replace(size))

    async def _replace(self, size: int) -> None:
        try:
            successor = await self._start()
        except EngineFailed as error:
            log.error("engine_not_replaced", engine=self._name, reason=str(error))
            return
        try:
            async with self._turn:
                former, self._current, self._turns = self._current, successor, 0
        except asyncio.CancelledError:
            await successor.end()
            raise
        self._metrics.restarted.labels("memory").inc()
        log.info("engine_replaced", engine=self._name, bytes=size, pid=successor.child.pid)
        if former is not None:
            await former.end()


class PipedEngine:
    """A process of ours at the other end of a pipe. It ends when its standard input does."""

    def __init__(self, name: str, child: Child) -> None:
        self._name, self.child = name, child
        self._pipe = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self.greeting: dict[str, Any] = {}

    @classmethod
    async def start(cls, name: str, module: str, *arguments: str) -> Self:
        """Run the module and wait for its greeting. Raises `EngineFailed`."""
        engine = cls(
            name,
            await Child.spawn(
                sys.executable, "-P", "-m", module, *arguments,
                streams=Streams(stdin=PIPE, stdout=PIPE), env=engine_environment(),
                new_group=False,
            ),
        )  # fmt: skip
        try:
            engine.greeting = json.loads(await engine._block(START_SECONDS))
        except asyncio.CancelledError:
            await engine.end()
            raise
        return engine

    async def end(self) -> None:
        await self.child.stop(KILL)

    async def ask(self, *blocks: bytes) -> AsyncGenerator[bytes]:
        """Yield the blocks of the answer; if the caller stops early, the rest is discarded.

        A separate task reads the answer to its end even if the request is cancelled. Otherwise half
        an answer could remain in the pipe for the next request. Raises `EngineFailed`.
        """
        await self._pipe.acquire()
        answer: asyncio.Queue[bytes | EngineFailed | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._exchange(blocks, answer))
        while (block := await answer.get()) is not None:
            if isinstance(block, EngineFailed):
                raise block
            yield block

    async def _exchange(
        self, blocks: tuple[bytes, ...], answer: "asyncio.Queue[bytes | EngineFailed | None]"
    ) -> None:
        try:
            await self._send(b"".join(packed(block) for block in blocks))
            while block := await self._block(ANSWER_SECONDS):
                answer.put_nowait(block)
            answer.put_nowait(None)
        except EngineFailed as error:
            log.warning("engine_lost", engine=self._name, reason=str(error))
            answer.put_nowait(error)
        finally:
            self._pipe.release()

    async def _send(self, data: bytes) -> None:
        assert self.child.process.stdin is not None
        try:
            self.child.process.stdin.write(data)
            await self.child.process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise await self._broken() from error

    async def _block(self, seconds: float) -> bytes:
        assert self.child.process.stdout is not None
        try:
            async with asyncio.timeout(seconds):
                length = int.from_bytes(await self.child.process.stdout.readexactly(4), "big")
                return await self.child.process.stdout.readexactly(length)
        except (asyncio.IncompleteReadError, TimeoutError) as error:
            raise await self._broken() from error

    async def _broken(self) -> EngineFailed:
        """End what cannot be trusted any more."""
        how = await self.child.stop(KILL)
        return EngineFailed(f"{self._name} broke off (its process ended with {how}).")
