"""One engine for many callers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from speech.audio import Samples
from speech.duty import Mouth, Queue
from speech.errors import Busy
from speech.metrics import SpeechMetrics


async def test_only_so_many_wait_and_the_next_one_is_told() -> None:
    """A queue without an end answers everybody too late."""
    registry = CollectorRegistry()
    queue, leave = Queue(2, SpeechMetrics(registry, "stt")), asyncio.Event()

    async def work() -> None:
        async with queue.turn():
            await leave.wait()

    working = [asyncio.create_task(work()) for _ in range(3)]
    await asyncio.sleep(0)
    assert registry.get_sample_value("speech_requests_waiting") == 2

    with pytest.raises(Busy, match="2 requests wait"):
        async with queue.turn():
            pass
    leave.set()
    await asyncio.gather(*working)
    assert registry.get_sample_value("speech_requests_waiting") == 0


async def test_who_leaves_the_queue_gives_the_place_back() -> None:
    """A caller that hangs up must not be waited for."""
    queue = Queue(1, SpeechMetrics(CollectorRegistry(), "stt"))
    async with queue.turn():
        waiting = asyncio.create_task(_turn(queue))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    async with asyncio.timeout(10), queue.turn():
        assert waiting.cancelled()


async def _turn(queue: Queue) -> None:
    async with queue.turn():
        pass


class Tones:
    """A voice that says two pieces of sound for each sentence."""

    name, language, rate = "tones", "en", 16_000

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def say(self, sentence: str, *, speed: float) -> AsyncGenerator[Samples]:
        for _ in range(2):
            yield np.zeros(100, np.float32)


async def test_listener_who_stops_to_listen_keeps_nobody_waiting() -> None:
    """A player that is paused in one room must not make the whole house silent."""
    mouth = Mouth(Tones(), SpeechMetrics(CollectorRegistry(), "tts"), 4)
    async with aclosing(mouth.say("One. Two.", speed=1)) as paused:
        await anext(paused)

        async with asyncio.timeout(60), aclosing(mouth.say("Three.", speed=1)) as other:
            heard = [len(piece) async for piece in other]
        rest = [len(piece) async for piece in paused]

    assert heard == [100, 100]
    assert rest == [100, 100, 100]
