"""Back-off: when a process that has ended is started again, and when that is given up."""

import time
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class RestartPolicy:
    """How often a process may end within `window` seconds, and the pauses before its restarts.

    Attributes:
        deaths: Ends within the window after which the next one is final.
        window: Seconds.
        first_pause: Seconds before the first restart; doubled for each further one.
        longest_pause: Seconds.
    """

    deaths: int = 5
    window: float = 60.0
    first_pause: float = 0.5
    longest_pause: float = 8.0

    def pause(self, deaths: int) -> float:
        """Return the seconds to wait after this many recent ends."""
        return float(min(self.first_pause * 2 ** (deaths - 1), self.longest_pause))


class Restarts:
    """Counts the ends of one process against its policy."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self._deaths: deque[float] = deque(maxlen=policy.deaths)

    def next_pause(self) -> float | None:
        """Count an end; returns the seconds to wait before the restart, None to give up."""
        now = time.monotonic()
        recent = [death for death in self._deaths if now - death < self.policy.window]
        if len(recent) == self.policy.deaths:
            return None
        self._deaths.append(now)
        return self.policy.pause(len(recent) + 1)
