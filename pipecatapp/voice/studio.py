"""What all conversations by voice of one service share: how many there may be, and the engines."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import ClientConnection

from pipecatapp.voice.messages import Setup
from pipecatapp.voice.metrics import VoiceMetrics
from pipecatapp.voice.workers import Workers


class NoSpeech(Exception):
    """Start Hearth with speech (`hearth up --speech`), or look at its services: `hearth status`."""


class Studio:
    """Admits so many conversations and gives each a worker.

    `engines` tells where `speech-stt` and `speech-tts` are now, or None for one that is nowhere.
    """

    def __init__(
        self,
        workers: Workers,
        metrics: VoiceMetrics,
        engines: Callable[[], Awaitable[tuple[str | None, str | None]]],
        *,
        key: str,
        ca_file: Path | None,
        most: int,
    ) -> None:
        self.metrics, self._workers, self._engines = metrics, workers, engines
        self._key, self._ca_file, self._most = key, ca_file, most
        self._sessions = 0

    async def open(self) -> None:
        """Warm a worker up, where there is something to hear and speak with."""
        if self._most and None not in await self._engines():
            await self._workers.open()

    async def close(self) -> None:
        """End every conversation."""
        await self._workers.close()

    @property
    def full(self) -> bool:
        return self._sessions >= self._most

    async def setup(self, *, half_duplex: bool) -> Setup:
        """What a worker is told of the engines. Raises `NoSpeech`."""
        stt, tts = await self._engines()
        if stt is None or tts is None:
            raise NoSpeech("This instance runs without speech: start it with --speech.")
        ca_file = None if self._ca_file is None else str(self._ca_file)
        return Setup(stt=stt, tts=tts, key=self._key, ca_file=ca_file, half_duplex=half_duplex)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ClientConnection]:
        """One conversation, counted. Raises `WorkerFailed`."""
        self._count(1)
        try:
            async with self._workers.session() as worker:
                yield worker
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self._sessions += change
        self.metrics.sessions.set(self._sessions)
