"""Work that lasts as long as its service."""

import asyncio

import structlog

from hearth.service.logs import lasting


async def test_work_that_breaks_is_told_and_begins_anew() -> None:
    """A schedule that never starts again, or a list of experts that is never renewed, is seen by
    nobody until somebody needs it.
    """
    begun, works = 0, asyncio.Event()

    async def follow() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise LookupError(f"number {begun}")
        works.set()
        await asyncio.Event().wait()

    with structlog.testing.capture_logs() as told:
        task = asyncio.create_task(lasting(follow, pause=0))
        await asyncio.wait_for(works.wait(), 60)
        task.cancel()
        await asyncio.wait([task])

    assert [(one["event"], one["exc_info"]) for one in told] == [("work_broke", True)] * 2
    assert "follow" in told[0]["work"]
    assert task.cancelled()
