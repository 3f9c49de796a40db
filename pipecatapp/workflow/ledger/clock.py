"""Times as the ledger writes them, and names that sort by time."""

import secrets
import time
from datetime import UTC, datetime
from functools import lru_cache

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80


def now() -> str:
    """ISO 8601, UTC, milliseconds."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{_second(seconds)}.{nanoseconds // 10**6:03d}Z"


@lru_cache(4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def seconds_between(start: str, end: str) -> float:
    """Never negative, whatever the clock did."""
    return max(
        0.0, round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 3)
    )


class Names:
    """New 26-character names (48 bits of milliseconds, 80 random), each after the one before.

    They are ULIDs (https://github.com/ulid/spec) with the monotonic rule, which also holds over
    restarts with a clock that was put back when `last` is the newest known name.
    """

    def __init__(self, last: str = "") -> None:
        self._last = _number(last) if last else 0

    def new(self) -> str:
        """The next name."""
        fresh = time.time_ns() // 1_000_000 << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        self._last = fresh if fresh >> _RANDOM_BITS > self._last >> _RANDOM_BITS else self._last + 1
        return "".join(_CROCKFORD[self._last >> shift & 31] for shift in range(125, -1, -5))


def _number(name: str) -> int:
    value = 0
    for letter in name:
        value = value << 5 | _CROCKFORD.index(letter)
    return value
