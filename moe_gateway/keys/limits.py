"""The limits of a caller: models, requests and tokens per minute, tokens per day."""

import time
from fnmatch import fnmatchcase
from math import ceil
from typing import Final

from hearth.openai_api.usage import TokenCount
from moe_gateway.errors import budget_spent, model_not_allowed, scope_missing, too_fast
from moe_gateway.keys.store import SCOPES, Limits, today

MINUTE: Final = 60.0
UNLIMITED: Final = Limits(scopes=SCOPES)
NO_TIME: Final = 1e-6
"""Seconds; smaller values are rounding errors."""


class Bucket:
    """A token bucket of `per_minute` tokens, filled evenly. It may be overdrawn, because the cost
    of an answer is known only afterwards; then it has to fill up again first.

    Its only state is the time at which it will be full (the virtual scheduling of ITU-T I.371).
    """

    __slots__ = ("_full_at", "_per_second", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute, self._per_second = per_minute, per_minute / MINUTE
        self._full_at = time.monotonic()

    def wait(self, amount: float) -> float:
        """Return the seconds until it holds this amount; 0 if it does now."""
        left = self._full_at - time.monotonic()
        seconds = (left if left > 0 else 0.0) - (self.per_minute - amount) / self._per_second
        return seconds if seconds > NO_TIME else 0.0

    def take(self, amount: float) -> None:
        now, full_at = time.monotonic(), self._full_at
        self._full_at = (full_at if full_at > now else now) + amount / self._per_second


class Caller:
    """The owner of one key, with its remaining limits. `used_today` is in tokens."""

    def __init__(self, name: str, *, used_today: int = 0) -> None:
        self.name, self.limits = name, UNLIMITED
        self.requests = self.prompt = self.completion = 0
        """Since this gateway runs, for its metrics."""
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._day, self._used_today = today(), used_today

    def limit(self, limits: Limits) -> None:
        """Set the limits; buckets of unchanged limits keep their state."""
        if limits == self.limits:
            return
        if limits.requests_per_minute != self.limits.requests_per_minute:
            self._requests = _bucket(limits.requests_per_minute)
        if limits.tokens_per_minute != self.limits.tokens_per_minute:
            self._tokens = _bucket(limits.tokens_per_minute)
        self.limits = limits

    def may_use(self, model: str) -> bool:
        patterns = self.limits.models
        return "*" in patterns or any(fnmatchcase(model, pattern) for pattern in patterns)

    def may_do(self, scope: str) -> bool:
        return scope in self.limits.scopes or "admin" in self.limits.scopes

    def check(self, model: str, scope: str | None) -> None:
        """Check that the key permits this model, which needs `scope`. Raises `Refused` (403)."""
        if not self.may_use(model):
            raise model_not_allowed(model, self.limits.models)
        if scope is not None and not self.may_do(scope):
            raise scope_missing(model, scope)

    def admit(self, model: str, scope: str) -> None:
        """Count one request for this model, which needs this scope.

        Raises `Refused`: 403, or 429 with the time to wait.
        """
        if self.limits is UNLIMITED:
            return
        self.check(model, scope)
        self.afford()
        if self._requests is not None:
            if seconds := self._requests.wait(1):
                raise too_fast("requests", self._requests.per_minute, ceil(seconds))
            self._requests.take(1)

    def afford(self) -> None:
        """Check that tokens are left. Raises `Refused` (429)."""
        budget = self.limits.tokens_per_day
        if budget is not None and self.used_today >= budget:
            raise budget_spent(budget)
        if self._tokens is not None and (seconds := self._tokens.wait(1)):
            raise too_fast("tokens", self._tokens.per_minute, ceil(seconds))

    def used(self, count: TokenCount | None) -> str:
        """Count an answered request with its tokens; returns the day that it counts for."""
        day = self._today()
        self.requests += 1
        if count is None:
            return day
        self.prompt += count.prompt
        self.completion += count.completion
        tokens = count.prompt + count.completion
        if self._tokens is not None:
            self._tokens.take(tokens)
        self._used_today += tokens
        return day

    def has_used(self, tokens: int) -> None:
        """Set the usage of this day from the store. It is larger than the own count after the clock
        was corrected."""
        self._today()
        self._used_today = max(self._used_today, tokens)

    @property
    def used_today(self) -> int:
        """Tokens since midnight, UTC."""
        self._today()
        return self._used_today

    def _today(self) -> str:
        """Return the day; the usage of a new day is 0."""
        day = today()
        if day != self._day:
            self._day, self._used_today = day, 0
        return day


def _bucket(per_minute: int | None) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute)
