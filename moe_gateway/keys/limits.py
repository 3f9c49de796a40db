"""What one caller may do: which models, how many requests and tokens a minute, how many a day."""

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
"""Seconds: less is what sums of times are rounded by."""


class Bucket:
    """A token bucket: `per_minute` at most at once, filled evenly. It may be overdrawn, because
    what an answer costs is known only afterwards; then it has to fill up again first.

    All that is kept is when it will be full (the virtual scheduling of ITU-T I.371).
    """

    __slots__ = ("_full_at", "_per_second", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute, self._per_second = per_minute, per_minute / MINUTE
        self._full_at = time.monotonic()

    def wait(self, amount: float) -> float:
        """Seconds until it holds so much; 0 when it does now."""
        left = self._full_at - time.monotonic()
        seconds = (left if left > 0 else 0.0) - (self.per_minute - amount) / self._per_second
        return seconds if seconds > NO_TIME else 0.0

    def take(self, amount: float) -> None:
        now, full_at = time.monotonic(), self._full_at
        self._full_at = (full_at if full_at > now else now) + amount / self._per_second


class Caller:
    """One key's owner, with what is left of its limits. `used_today` is in tokens."""

    def __init__(self, name: str, *, used_today: int = 0) -> None:
        self.name, self.limits = name, UNLIMITED
        self.requests = self.prompt = self.completion = 0
        """Since this gateway runs, for its metrics."""
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
        patterns = self.limits.models
        return "*" in patterns or any(fnmatchcase(model, pattern) for pattern in patterns)

    def may_do(self, scope: str) -> bool:
        return scope in self.limits.scopes or "admin" in self.limits.scopes

    def check(self, model: str, scope: str | None) -> None:
        """Raises `Refused` (403): this model is not for this key. `scope` is what it needs."""
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
        """Raises `Refused` (429) when its tokens are spent."""
        budget = self.limits.tokens_per_day
        if budget is not None and self.used_today >= budget:
            raise budget_spent(budget)
        if self._tokens is not None and (seconds := self._tokens.wait(1)):
            raise too_fast("tokens", self._tokens.per_minute, ceil(seconds))

    def used(self, count: TokenCount | None) -> str:
        """A request was answered, and cost so much; gives the day that it counts for."""
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
        """The store says what it has used on this day: more than what was counted here where the
        clock has jumped, as it does on machines that begin with a wrong one."""
        self._today()
        self._used_today = max(self._used_today, tokens)

    @property
    def used_today(self) -> int:
        """Tokens since midnight, UTC."""
        self._today()
        return self._used_today

    def _today(self) -> str:
        """The day; a new one begins with nothing used."""
        day = today()
        if day != self._day:
            self._day, self._used_today = day, 0
        return day


def _bucket(per_minute: int | None) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute)
