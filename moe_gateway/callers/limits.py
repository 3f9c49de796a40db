"""What one caller may do: which models, how many requests and tokens a minute, how many a day."""

import time
from fnmatch import fnmatchcase
from math import ceil
from typing import Final

from moe_gateway.callers.store import Limits, today
from moe_gateway.errors import budget_spent, model_not_allowed, too_fast

MINUTE: Final = 60.0
UNLIMITED: Final = Limits()


class Bucket:
    """A token bucket: `per_minute` at most at once, filled evenly. It may be overdrawn, because
    what an answer costs is known only afterwards; then it has to fill up again first."""

    __slots__ = ("_at", "_level", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._level, self._at = float(per_minute), time.monotonic()

    def wait(self, amount: float) -> float:
        """Seconds until it holds so much; 0 when it does now."""
        now = time.monotonic()
        filled = self._level + (now - self._at) * self.per_minute / MINUTE
        self._level, self._at = min(filled, float(self.per_minute)), now
        return max(0.0, (amount - self._level) * MINUTE / self.per_minute)

    def take(self, amount: float) -> None:
        self._level -= amount


class Caller:
    """One key's owner, with what is left of its limits. `used_today` is in tokens."""

    def __init__(self, name: str, *, used_today: int = 0) -> None:
        self.name, self.limits = name, UNLIMITED
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._day, self._used_today = today(), used_today

    def limit(self, limits: Limits) -> None:
        """From now on these limits hold; what they leave as it is goes on as it was."""
        if limits == self.limits:
            return
        if limits.requests_per_minute != self.limits.requests_per_minute:
            self._requests = _bucket(limits.requests_per_minute)
        if limits.tokens_per_minute != self.limits.tokens_per_minute:
            self._tokens = _bucket(limits.tokens_per_minute)
        self.limits = limits

    def may_use(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.limits.models)

    def admit(self, model: str) -> None:
        """Count one request for this model. Raises `Refused`: 403, or 429 with the time to wait."""
        if self.limits is UNLIMITED:
            return
        if not self.may_use(model):
            raise model_not_allowed(model, self.limits.models)
        budget = self.limits.tokens_per_day
        if budget is not None and self.used_today >= budget:
            raise budget_spent(budget)
        if self._tokens is not None and (seconds := self._tokens.wait(1)):
            raise too_fast("tokens", self._tokens.per_minute, ceil(seconds))
        if self._requests is not None:
            if seconds := self._requests.wait(1):
                raise too_fast("requests", self._requests.per_minute, ceil(seconds))
            self._requests.take(1)

    def used(self, tokens: int) -> None:
        """An answer cost so many tokens."""
        if self._tokens is not None:
            self._tokens.wait(0)
            self._tokens.take(tokens)
        self._used_today = self.used_today + tokens

    @property
    def used_today(self) -> int:
        """Tokens since midnight, UTC."""
        if self._day != today():
            self._day, self._used_today = today(), 0
        return self._used_today


def _bucket(per_minute: int | None) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute)
