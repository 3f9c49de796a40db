"""Health of a service: it is *live* if it answers, and *ready* if no part reports a reason."""

from datetime import UTC, datetime

from pydantic import BaseModel


class HealthReport(BaseModel):
    """The body of `GET /health`; status 200 when ready, 503 with the reasons when not."""

    service: str
    live: bool = True
    ready: bool
    reasons: list[str]
    since: datetime
    version: str


class Health:
    """The reasons why one service is not ready, set by its parts."""

    def __init__(self, service: str, *, version: str) -> None:
        self.service, self.version = service, version
        self._reasons: dict[str, str] = {"start": "starting"}
        self._since = datetime.now(UTC)

    @property
    def ready(self) -> bool:
        return not self._reasons

    def not_ready(self, part: str, reason: str) -> None:
        """Record why `part` prevents the service from working."""
        was_ready = self.ready
        self._reasons[part] = reason
        if was_ready:
            self._since = datetime.now(UTC)

    def ready_again(self, part: str) -> None:
        """Remove the reason of `part`, if there is one."""
        was_ready = self.ready
        self._reasons.pop(part, None)
        if self.ready and not was_ready:
            self._since = datetime.now(UTC)

    def started(self) -> None:
        self.ready_again("start")

    def draining(self) -> None:
        """Mark the service as finishing its active requests and accepting no new ones."""
        self.not_ready("stop", "stopping: finishing active requests")

    def report(self) -> HealthReport:
        """Return the response of `/health`; `since` is when `ready` last changed."""
        return HealthReport(
            service=self.service,
            ready=self.ready,
            reasons=[f"{part}: {reason}" for part, reason in sorted(self._reasons.items())],
            since=self._since,
            version=self.version,
        )
