"""A Wyoming client: what a satellite or Home Assistant sends, and what comes back."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event, Eventable

from pipecatapp.voice.messages import HEARD_RATE
from speech.audio import Samples, to_pcm

CHUNK = 1024
"""Samples of a piece, as satellites send them."""

SECONDS = 120.0
Kind = TypeVar("Kind", bound=Eventable)


@dataclass
class WyomingClient:
    """All that the other side sent, in its order."""

    client: AsyncTcpClient
    events: list[Event] = field(default_factory=list)
    ended: bool = False
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def listen(self) -> None:
        try:
            while (event := await self.client.read_event()) is not None:
                self.events.append(event)
                async with self._news:
                    self._news.notify_all()
        except ConnectionError:
            pass
        self.ended = True
        async with self._news:
            self._news.notify_all()

    async def send(self, *events: Eventable) -> None:
        for event in events:
            await self.client.write_event(event.event())

    async def gets(self, kind: type[Kind], *, after: int = 0) -> Kind:
        """The first event of that kind, from the event number `after` on."""
        async with asyncio.timeout(SECONDS), self._news:
            while True:
                for event in self.events[after:]:
                    if kind.is_type(event.type):
                        found = kind.from_event(event)
                        assert isinstance(found, kind)
                        return found
                assert not self.ended, f"hung up after {self.types()}"
                await self._news.wait()

    async def hung_up(self) -> None:
        async with asyncio.timeout(SECONDS), self._news:
            while not self.ended:
                await self._news.wait()

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def sound(self, *, after: int = 0) -> tuple[Samples, int]:
        """What was played from the event number `after` on, and its rate."""
        chunks = [
            AudioChunk.from_event(event)
            for event in self.events[after:]
            if AudioChunk.is_type(event.type)
        ]
        data = np.frombuffer(b"".join(chunk.audio for chunk in chunks), "<i2")
        return data.astype(np.float32) / np.float32(32768), chunks[0].rate

    async def speak(self, samples: Samples) -> None:
        """At the pace of speech."""
        data, began = to_pcm(samples), time.monotonic()
        for number, start in enumerate(range(0, len(data), 2 * CHUNK)):
            await self.send(piece(data[start : start + 2 * CHUNK]))
            late = began + (number + 1) * CHUNK / HEARD_RATE - time.monotonic()
            await asyncio.sleep(max(0.0, late))

    async def record(self, samples: Samples) -> None:
        """All at once, as from a file."""
        await self.send(AudioStart(rate=HEARD_RATE, width=2, channels=1))
        data = to_pcm(samples)
        for start in range(0, len(data), 2 * CHUNK):
            await self.send(piece(data[start : start + 2 * CHUNK]))
        await self.send(AudioStop())

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """The microphone goes on, and nobody speaks into it."""

        async def silence() -> None:
            while True:
                await self.speak(np.zeros(HEARD_RATE // 2, np.float32))

        task = asyncio.create_task(silence())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def piece(data: bytes) -> AudioChunk:
    return AudioChunk(rate=HEARD_RATE, width=2, channels=1, audio=data)


@asynccontextmanager
async def wyoming_client(port: int) -> AsyncIterator[WyomingClient]:
    """Connected, until the block ends."""
    async with AsyncTcpClient("127.0.0.1", port) as connection:
        client = WyomingClient(connection)
        listening = asyncio.create_task(client.listen())
        try:
            yield client
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
