"""Time limits of everything that waits, on one timer of the event loop."""

import asyncio
from math import inf
from operator import attrgetter
from typing import Final, Protocol

TOGETHER: Final = 0.02
"""Seconds between two looks at least; limits that end in between end together, so much too late."""


class Limited(Protocol):
    """An object with a deadline."""

    due: float
    """The deadline on the event loop's clock; `inf`: none."""

    def late(self) -> None:
        """It has waited as long as it may."""


class Deadlines:
    """Many timeouts that rarely fire, on one timer that is set to the earliest deadline. Setting or
    clearing one costs as much as setting an attribute (decision 0023).
    """

    __slots__ = ("_known", "_looks_at", "_loop", "_timer")

    def __init__(self) -> None:
        self._known: set[Limited] = set()
        self._looks_at = inf
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Limited) -> None:
        """From now on its limits are looked at, until it is removed."""
        self._known.add(one)

    def remove(self, one: Limited) -> None:
        """It is over, whether it was added or not."""
        one.due = inf
        self._known.discard(one)
        if not self._known:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._loop, self._looks_at = None, None, inf

    def known(self) -> list[Limited]:
        """All whose limits are looked at now."""
        return list(self._known)

    def within(self, one: Limited, seconds: float) -> float:
        """Call its `late` in so many seconds, unless its `due` is set otherwise before; gives that
        time. Never early, and up to `TOGETHER` too late."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        one.due = due = loop.time() + seconds
        if due < self._looks_at:
            self._look_at(loop, due)
        return due

    def _look_at(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = when
        self._timer = loop.call_at(when, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._looks_at = None, inf
        now = loop.time()
        over = [one for one in self._known if one.due <= now]
        for one in sorted(over, key=attrgetter("due")):
            if one.due <= now:
                one.due = inf
                one.late()
        earliest = min((one.due for one in self._known), default=inf)
        if earliest < self._looks_at:
            self._look_at(loop, max(earliest, now + TOGETHER))
