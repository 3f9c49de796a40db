"""One engine for many callers."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from speech.duty import Queue
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
