"""Admission: as many requests at a time as there are slots; the others wait in a fair queue.

Each key has its own queue, and the keys take turns (round robin), so one caller with a hundred
requests does not delay the first request of another. A request whose expert is busy does not block
later requests that can proceed.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from moe_gateway.errors import MAX_RETRY_SECONDS, queue_full

RETRY_SHARE: Final = 0.1
"""Failovers add at most this share of load, so that failures do not double the load."""
RETRY_BURST: Final = 10.0
"""Maximum number of failovers at a time, after a period without failovers."""
MAX_OPEN_SECONDS: Final = 30.0
SMOOTHING: Final = 0.2
"""Weight of the newest wait in the mean that `Retry-After` is made from."""


class Circuit:
    """Keeps an instance that fails again and again out for a while, then tries it with one request.

    Closed: used. Open, after `failures` in a row: not used for `seconds`, twice as long each time
    that the try fails (at most 30 s). Half open: one request may try.
    """

    __slots__ = ("_failed", "_failures", "_next", "_seconds", "open_until")

    def __init__(self, failures: int = 3, seconds: float = 2.0) -> None:
        self._failures, self._seconds = failures, min(seconds, MAX_OPEN_SECONDS)
        self._failed, self._next = 0, self._seconds
        self.open_until = 0.0
        """`time.monotonic()`; 0: closed."""

    @property
    def state(self) -> str:
        if not self.open_until:
            return "closed"
        return "open" if time.monotonic() < self.open_until else "half-open"

    def succeeded(self) -> None:
        self._failed, self._next, self.open_until = 0, self._seconds, 0.0

    def failed(self) -> bool:
        """Record a failure. Returns True if it opened the circuit, for the first time or again."""
        self._failed += 1
        if self._failed < self._failures and not self.open_until:
            return False
        self.open_until = time.monotonic() + self._next
        self._next = min(2 * self._next, MAX_OPEN_SECONDS)
        return True


class RetryBudget:
    """Failovers in proportion to requests (see `RETRY_SHARE`)."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = RETRY_BURST

    def request(self) -> None:
        """Count a request, which adds a fraction of a failover to the budget."""
        self._left = min(RETRY_BURST, self._left + RETRY_SHARE)

    def spend(self, slots: int = 0) -> bool:
        """Return whether one more failover is permitted. If an instance with `slots` slots
        fails, all its requests may be retried; the deficit must be earned before further
        failovers."""
        if self._left < 1 - max(0, slots - RETRY_BURST):
            return False
        self._left -= 1
        return True


class Slots(Protocol):
    """The properties of an instance that admission uses."""

    in_flight: int

    @property
    def free(self) -> bool:
        """Whether it can take another request now."""


S = TypeVar("S", bound=Slots)


@dataclass(eq=False)
class Waiting(Generic[S]):
    """One request in the queue. `pick` returns an instance with a free slot, or None, or raises
    `Refused`."""

    model: str
    pick: Callable[[], S | None]
    granted: "asyncio.Future[S]"
    since: float = field(default_factory=time.perf_counter)


class Admission(Generic[S]):
    """The slots of all instances, and the requests that wait for them.

    `per_key` and `total` are the maximum numbers of waiting requests; more are refused with 429.
    """

    def __init__(self, per_key: int, total: int) -> None:
        self._per_key, self._total = per_key, total
        self._turns: OrderedDict[str, deque[Waiting[S]]] = OrderedDict()
        self._mean_wait = 1.0

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._turns.values())

    def waiting_for(self) -> dict[str, int]:
        """How many requests wait, by the model that they ask for."""
        counts: dict[str, int] = {}
        for queue in self._turns.values():
            for one in queue:
                counts[one.model] = counts.get(one.model, 0) + 1
        return counts

    def place_of(self, waiting: Waiting[S]) -> int:
        """How many turns it waits, its own included: each key has one in each round."""
        places = [queue.index(waiting) + 1 for queue in self._turns.values() if waiting in queue]
        if not places:
            return 0
        return sum(min(len(queue), places[0]) for queue in self._turns.values())

    async def enter(
        self,
        key: str,
        model: str,
        pick: Callable[[], S | None],
        told: Callable[[Callable[[], int]], None] = lambda place: None,
    ) -> S:
        """Take a slot, immediately or after waiting in the queue; `leave` returns it. While it
        waits, `told` receives a function that returns its place in the queue.

        Raises `Refused`: as `pick` does (no instance is ready any more), or 429 if the queue is
        full.
        """
        # Waiting requests cannot use the free slots: `changed` has just tried all of them.
        instance = pick()
        if instance is None:
            return await self._wait(key, model, pick, told)
        self.take(instance)
        return instance

    def take(self, instance: S) -> None:
        """Take a slot of an instance that has one free."""
        instance.in_flight += 1

    def leave(self, instance: S) -> None:
        """Return a slot; the next request in turn that can use it gets it."""
        instance.in_flight -= 1
        if self._turns:
            self.changed()

    def changed(self) -> None:
        """Admit waiting requests that can proceed after a change of slots or instances."""
        for _ in range(len(self)):
            if not self._let_one_in():
                return

    async def _wait(
        self,
        key: str,
        model: str,
        pick: Callable[[], S | None],
        told: Callable[[Callable[[], int]], None],
    ) -> S:
        own = len(self._turns.get(key, ()))
        if own >= self._per_key or len(self) >= self._total:
            raise queue_full(own, round(min(max(self._mean_wait, 1), MAX_RETRY_SECONDS)))
        granted: asyncio.Future[S] = asyncio.get_running_loop().create_future()
        waiting = Waiting(model, pick, granted)
        self._turns.setdefault(key, deque()).append(waiting)
        told(lambda: self.place_of(waiting))
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._give_back(granted)
            raise
        finally:
            self._remove(key, waiting)

    def _give_back(self, granted: "asyncio.Future[S]") -> None:
        """Return the slot of a caller that disconnected at the moment in which it was granted."""
        if granted.exception() is None:
            self.leave(granted.result())

    def _remove(self, key: str, waiting: Waiting[S]) -> None:
        queue = self._turns.get(key)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._turns[key]

    def _let_one_in(self) -> bool:
        """Serve the first key in turn with a request that can proceed, and move it to the end."""
        for key, queue in self._turns.items():
            for waiting in queue:
                if self._served(waiting):
                    self._remove(key, waiting)
                    if key in self._turns:
                        self._turns.move_to_end(key)
                    return True
        return False

    def _served(self, waiting: Waiting[S]) -> bool:
        if waiting.granted.done():
            return True
        try:
            instance = waiting.pick()
        except Exception as error:  # noqa: BLE001 - of this request alone, and raised in its task
            waiting.granted.set_exception(error)
            return True
        if instance is None:
            return False
        instance.in_flight += 1
        waited = time.perf_counter() - waiting.since
        self._mean_wait += SMOOTHING * (waited - self._mean_wait)
        waiting.granted.set_result(instance)
        return True
