"""Holds: users and services that need a machine awake, each until some time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from pydantic import BaseModel

LONG_SECONDS: Final = 300.0
"""Holders renew holds that are shorter."""


class StoredHold(BaseModel):
    """A hold in the state file."""

    reason: str
    until: float
    """Seconds since 1970."""


class HoldReport(BaseModel):
    """A hold, as the API shows it."""

    holder: str
    reason: str
    seconds_left: float


@dataclass(frozen=True)
class Hold:
    """One holder's wish that a machine stays awake."""

    reason: str
    seconds: float
    """How long it lasts."""
    until: float
    """By the monotonic clock: small computers set the other one when they find the network."""


class Holds:
    """The holds of one machine, and the time since the last of them ended.

    A hold ends by itself, so that a holder that was killed does not keep a machine awake for ever.
    """

    def __init__(self, stored: Mapping[str, StoredHold]) -> None:
        now, date = time.monotonic(), time.time()
        self._by_holder = {
            holder: Hold(one.reason, inf, now + one.until - date) for holder, one in stored.items()
        }
        self._idle_from = now

    def put(self, holder: str, reason: str, seconds: float) -> None:
        """Keep the machine awake for so long; it replaces the hold that this holder had."""
        self._drop_ended()
        self._by_holder[holder] = Hold(reason, seconds, time.monotonic() + seconds)

    def release(self, holder: str) -> None:
        """End a hold now, if there is one."""
        self._drop_ended()
        if self._by_holder.pop(holder, None) is not None:
            self.touch()

    def touch(self) -> None:
        """The machine is idle from now on."""
        self._idle_from = time.monotonic()

    def now(self) -> dict[str, Hold]:
        """Return the holds that have not ended, by their holders."""
        self._drop_ended()
        return dict(self._by_holder)

    @property
    def idle_seconds(self) -> float:
        """Time without a hold; 0 while there is one."""
        return 0.0 if self.now() else max(0.0, time.monotonic() - self._idle_from)

    def report(self) -> list[HoldReport]:
        """Return the holds for the API."""
        now = time.monotonic()
        return [
            HoldReport(holder=holder, reason=one.reason, seconds_left=max(0.0, one.until - now))
            for holder, one in self.now().items()
        ]

    def long(self) -> dict[str, Hold]:
        """Return the holds to store: nobody renews them after a restart of the power manager."""
        return {holder: one for holder, one in self.now().items() if one.seconds > LONG_SECONDS}

    def stored(self) -> dict[str, StoredHold]:
        """Return the long holds for the state file."""
        shift = time.time() - time.monotonic()
        return {
            holder: StoredHold(reason=one.reason, until=one.until + shift)
            for holder, one in self.long().items()
        }

    def _drop_ended(self) -> None:
        now = time.monotonic()
        for holder, one in list(self._by_holder.items()):
            if one.until <= now:
                del self._by_holder[holder]
                self._idle_from = max(self._idle_from, one.until)
