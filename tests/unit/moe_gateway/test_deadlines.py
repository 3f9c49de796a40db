"""Time limits of everything that waits, kept by one timer."""

import asyncio
from collections.abc import Callable
from math import inf

from moe_gateway.http.deadlines import Deadlines


class Waiting:
    """Says when it has waited too long."""

    def __init__(self, deadlines: Deadlines, told: Callable[[], object]) -> None:
        self.due, self._told = inf, told
        deadlines.add(self)

    def late(self) -> None:
        self._told()


async def test_limits_end_in_their_order_and_never_early() -> None:
    """A request with little time must not wait for one with more, nor lose time of its own."""
    deadlines, loop = Deadlines(), asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    began, told = loop.time(), dict[str, float]()

    def late(name: str) -> None:
        told[name] = loop.time() - began
        if len(told) == 2:
            ended.set_result(None)

    deadlines.within(Waiting(deadlines, lambda: late("second")), 0.1)
    deadlines.within(Waiting(deadlines, lambda: late("first")), 0.05)
    await asyncio.wait_for(ended, 60)

    assert list(told) == ["first", "second"]
    assert told["first"] >= 0.049
    assert told["second"] >= 0.099


async def test_what_is_over_or_has_another_limit_does_not_end() -> None:
    """Nearly all answers come in time."""
    deadlines, told = Deadlines(), list[str]()
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    removed = Waiting(deadlines, lambda: told.append("removed"))
    dropped = Waiting(deadlines, lambda: told.append("dropped"))
    longer = Waiting(deadlines, lambda: told.append("too soon"))
    later = Waiting(deadlines, lambda: ended.set_result(None))

    for one in (removed, dropped, longer):
        deadlines.within(one, 0.01)
    deadlines.remove(removed)
    dropped.due = inf
    longer.due += 3600
    deadlines.within(later, 0.03)
    await asyncio.wait_for(ended, 60)

    assert told == []


async def test_limits_hold_again_after_nobody_waited() -> None:
    """Between two requests there may be none at all, and then no timer is set."""
    deadlines = Deadlines()
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    told: list[str] = []
    first = Waiting(deadlines, lambda: told.append("it is over"))
    deadlines.within(first, 0.01)
    deadlines.remove(first)

    deadlines.within(Waiting(deadlines, lambda: ended.set_result(None)), 0.02)

    await asyncio.wait_for(ended, 60)
    assert told == []
