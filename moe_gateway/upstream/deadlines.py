"""Time limits of everything that waits, on one timer of the event loop."""

import asyncio
from collections.abc import Callable, Hashable
from math import inf
from operator import itemgetter
from typing import Final

TOGETHER: Final = 0.02
"""Seconds between two looks at least; limits that end in between end together, so much too late."""


class Deadlines:
    """Many limits that hardly ever come true: each is an entry of a dict, and one timer, set for
    the earliest of them, looks at all (decision 0155).
    """

    __slots__ = ("_due", "_looks_at", "_timer")

    def __init__(self) -> None:
        self._due: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._looks_at = inf
        self._timer: asyncio.TimerHandle | None = None

    def set(self, who: Hashable, seconds: float, late: Callable[[], None]) -> None:
        """Call `late` in so many seconds, unless it is dropped before; a second limit of the same
        `who` takes the place of the first."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        self._due[who] = when, late
        if when < self._looks_at:
            self._look_at(loop, when)

    def drop(self, who: Hashable) -> None:
        """There is no limit any more."""
        self._due.pop(who, None)

    def _look_at(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = when
        self._timer = loop.call_at(when, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._looks_at = None, inf
        now = loop.time()
        over = [(when, who) for who, (when, _) in self._due.items() if when <= now]
        for _, who in sorted(over, key=itemgetter(0)):
            if (found := self._due.get(who)) is not None and found[0] <= now:
                del self._due[who]
                found[1]()
        if self._due:
            earliest = min(when for when, _ in self._due.values())
            self._look_at(loop, max(earliest, now + TOGETHER))
