"""Time limits of everything that waits, on one timer of the event loop."""

import asyncio
from math import inf
from operator import attrgetter
from typing import Final, Protocol

TOGETHER: Final = 0.02
"""Minimum seconds between two checks; deadlines in between expire together, at most so much
late."""


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
        """Check the deadlines of an object until it is removed."""
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
        """Return all objects whose deadlines are checked."""
        return list(self._known)

    def within(self, one: Limited, seconds: float) -> float:
        """Set the deadline of an object to `seconds` from now and return it; then its `late` is
        called unless `due` has changed. Never early, and up to `TOGETHER` late."""
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
