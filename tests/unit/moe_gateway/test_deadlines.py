"""Time limits of everything that waits, kept by one timer."""

import asyncio

from moe_gateway.upstream.deadlines import Deadlines


async def test_limits_end_in_their_order_and_never_early() -> None:
    """A request with little time must not wait for one with more, nor lose time of its own."""
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    began, told = loop.time(), dict[str, float]()

    def late(name: str) -> None:
        told[name] = loop.time() - began
        if len(told) == 2:
            ended.set_result(None)

    deadlines.set("second", 0.1, lambda: late("second"))
    deadlines.set("first", 0.05, lambda: late("first"))
    await asyncio.wait_for(ended, 60)

    assert list(told) == ["first", "second"]
    assert told["first"] >= 0.049
    assert told["second"] >= 0.099


async def test_what_was_dropped_or_set_anew_does_not_end() -> None:
    """Nearly all answers come in time."""
    deadlines, told = Deadlines(), list[str]()
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    deadlines.set("dropped", 0.01, lambda: told.append("dropped"))
    deadlines.set("later", 0.01, lambda: told.append("too soon"))

    deadlines.drop("dropped")
    deadlines.drop("never set")
    deadlines.set("later", 0.03, lambda: ended.set_result(None))
    await asyncio.wait_for(ended, 60)

    assert told == []
