"""Keep one service running: wait until it is healthy, then restart it whenever it ends."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import httpx2

from hearth.local.errors import NotReplaced, ServiceGaveUp, StartFailed
from hearth.local.process.child import ServiceProcess
from hearth.local.process.health import started
from hearth.local.process.logfile import LogFile
from hearth.local.process.service import Service
from hearth.local.process.warden import Warden
from hearth.process.restarts import RestartPolicy, Restarts

POLL_SECONDS = 0.1
EVIDENCE_LINES = 12


class Audience(Protocol):
    """Receives the events of the services."""

    def line(self, service: str, text: str) -> None:
        """Receive one line that a service wrote, or a message about it."""

    def condition(self, service: str, detail: str) -> None:
        """Receive the state of a starting service."""


class Keeper:
    """Starts one service, waits until it is healthy, and starts it again when it ends."""

    def __init__(
        self,
        service: Service,
        *,
        folder: Path,
        logs: Path,
        warden: Warden,
        audience: Audience,
        policy: RestartPolicy,
        restarted: Callable[[], None],
    ) -> None:
        self.service = service
        self.child: ServiceProcess | None = None
        self._folder, self._warden, self._audience = folder, warden, audience
        self._policy, self._restarted = policy, restarted
        self._logs, self._log = logs, LogFile(logs / f"{service.name}.log")
        self._tail: deque[str] = deque(maxlen=EVIDENCE_LINES)
        self._changing = asyncio.Lock()
        """Held while the process is replaced by another one."""

    async def start(self) -> None:
        self.child = await ServiceProcess.start(
            self.service, self._warden, self._heard, folder=self._folder
        )

    async def become_healthy(self, client: httpx2.AsyncClient) -> None:
        """Wait for the first `200` of its health check; raises `StartFailed` if it ends or times
        out."""
        if (reason := await self._unhealthy(client)) is not None:
            raise StartFailed(
                self.service.name, reason, log=self._log.path, evidence=list(self._tail)
            )

    async def _unhealthy(self, client: httpx2.AsyncClient) -> str | None:
        """Wait until it is healthy; returns the reason if it ends or takes too long."""
        assert self.child is not None
        ended = asyncio.create_task(self.child.wait())
        deadline = time.monotonic() + self.service.start_seconds
        detail = "starting"
        try:
            while not ended.done():
                condition = await started(client, self.service)
                if condition.healthy:
                    self._audience.condition(self.service.name, "ready")
                    return None
                detail = condition.detail
                self._audience.condition(self.service.name, detail)
                if time.monotonic() > deadline:
                    return f"not ready in {self.service.start_seconds:.0f} s: {detail}"
                await asyncio.wait({ended}, timeout=POLL_SECONDS)
            return f"it ended with {ended.result()}"
        finally:
            ended.cancel()

    async def keep(self) -> None:
        """Restart the service whenever it ends; raises `ServiceGaveUp` after too many ends."""
        assert self.child is not None
        restarts = Restarts(self._policy)
        while True:
            child = self.child
            how = await child.wait()
            async with self._changing:
                if self.child is child:  # its end was not requested
                    await self._start_again(how, restarts)

    async def restart(self) -> None:
        """Stop the service and start it again; returns before it is healthy."""
        async with self._changing:
            self.tell("restarting it, as requested")
            await self._stop_child()
            await self.start()
        self._restarted()

    async def replace(self, service: Service, client: httpx2.AsyncClient) -> None:
        """Stop the service, start `service` in its place and wait until that is healthy.

        Raises `NotReplaced`; the service that ran before is started again then.
        """
        async with self._changing:
            before = self.service
            self.tell(f"stopping it: {service.name} takes its place")
            await self._become(service)
            if (reason := await self._unhealthy(client)) is not None:
                failed = NotReplaced(
                    service.name, before.name, reason,
                    log=self._log.path, evidence=list(self._tail),
                )  # fmt: skip
                self.tell(f"it did not become healthy: {before.name} takes its place again")
                await self._become(before)
                raise failed

    async def _start_again(self, how: str, restarts: Restarts) -> None:
        """Start a service that has ended, after a pause. Raises `ServiceGaveUp`."""
        pause = restarts.next_pause()
        if pause is None:
            raise ServiceGaveUp(
                self.service.name, how, deaths=self._policy.deaths + 1,
                log=self._log.path, evidence=list(self._tail),
            )  # fmt: skip
        self.tell(f"ended with {how}; starting it again in {pause:g} s")
        await asyncio.sleep(pause)
        await self.start()
        self._restarted()

    async def _become(self, service: Service) -> None:
        """Stop the process and start that of `service`, with a separate log."""
        await self._stop_child()
        if service.name != self.service.name:
            self._log.close()
            self._log = LogFile(self._logs / f"{service.name}.log")
        self.service = service
        await self.start()
        self._restarted()

    async def _stop_child(self) -> None:
        if self.child is not None:
            await self.child.stop(asyncio.Event())

    async def stop(self, hurry: asyncio.Event) -> None:
        """Stop it if it runs, and close its log."""
        if self.child is not None:
            await self.child.stop(hurry)
        self._log.close()

    def tell(self, text: str) -> None:
        """Put a line of the supervisor's own among those of the service."""
        self._log.write(f"hearth: {text}")
        self._audience.line(self.service.name, f"hearth: {text}")

    def _heard(self, text: str) -> None:
        self._tail.append(text)
        self._audience.line(self.service.name, text)
        was_fine = self._log.failure is None
        self._log.write(text)
        if was_fine and self._log.failure is not None:
            reason = self._log.failure.strerror
            self._audience.line(self.service.name, f"hearth: its log is not written: {reason}")
