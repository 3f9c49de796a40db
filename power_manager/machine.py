"""One machine that may sleep: its state, and one wake at a time."""

import asyncio
import errno
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from statistics import quantiles
from typing import Final

import structlog
from pydantic import BaseModel

from power_manager import packets
from power_manager.metrics import Metrics
from power_manager.settings import MachineSettings, Settings

log = structlog.get_logger()

PROBE_PAUSE: Final = 0.25
"""Seconds between two probes while a machine wakes up."""

REMEMBERED: Final = 50
"""Wakes whose times are kept."""

HINT: Final = (
    "Check that wake-on-LAN is enabled in its firmware, that it is connected by cable, and that it"
    " is in the network to whose broadcast address the packet is sent."
)


class State(StrEnum):
    """The state of a machine."""

    UNKNOWN = "unknown"
    AWAKE = "awake"
    ASLEEP = "asleep"
    WAKING = "waking"
    FAILED = "failed"
    """It did not wake up; the next wake tries again."""


class MachineReport(BaseModel):
    """One machine, as the API shows it."""

    name: str
    state: State
    reason: str
    """Why it is being woken, or why that failed; empty in other states."""
    mac: str
    address: str
    elapsed_seconds: float | None
    """Since the current wake began."""
    woken_seconds_ago: float | None
    """Since its last wake ended; null if it was never woken."""
    wake_seconds_p50: float | None
    wake_seconds_p95: float | None
    """Of the last wakes; null before the first one."""


class Machine:
    """Knows whether a machine is awake, and wakes it.

    `learned` is called with the times of its last wakes, in seconds, when one was added.
    """

    def __init__(
        self,
        settings: MachineSettings,
        service: Settings,
        metrics: Metrics,
        times: Sequence[float] = (),
        learned: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings, self.service, self.metrics = settings, service, metrics
        self.times = deque(times, maxlen=REMEMBERED)
        self.state, self.reason = State.UNKNOWN, ""
        self._learned = learned
        self._wake: asyncio.Task[None] | None = None
        self._began = 0.0
        self._woken: float | None = None

    def report(self) -> MachineReport:
        """Return its state, without a probe."""
        now = time.monotonic()
        p50, p95 = _p50_p95(self.times)
        return MachineReport(
            name=self.settings.name,
            state=self.state,
            reason=self.reason,
            mac=self.settings.mac,
            address=str(self.settings.address.ip),
            elapsed_seconds=now - self._began if self.state is State.WAKING else None,
            woken_seconds_ago=None if self._woken is None else now - self._woken,
            wake_seconds_p50=p50,
            wake_seconds_p95=p95,
        )

    async def watch(self) -> None:
        """Check for ever whether it is awake."""
        while True:
            await self.check()
            await asyncio.sleep(self.service.check_seconds)

    async def check(self) -> None:
        """Probe it, unless it is waking: that probes already. A failed wake stays visible until
        the machine answers."""
        if self._wake is not None:
            return
        awake = await self._answers()
        if self._wake is not None:  # It was asked for during the probe.
            return
        if awake:
            self._now(State.AWAKE)
        elif self.state is not State.FAILED:
            self._now(State.ASLEEP)

    async def wake(self, reason: str) -> MachineReport:
        """Wake it if it does not answer, and return its state at once: `awake` or `waking`.

        Any number of callers share one wake. `reason` is shown and logged.
        """
        if self._wake is None:
            if await self._answers():
                self._now(State.AWAKE)
            elif self._wake is None:
                self._began = time.monotonic()
                self._now(State.WAKING, reason)
                self._wake = asyncio.create_task(self._wake_up())
        return self.report()

    async def close(self) -> None:
        """Stop a wake that is in progress."""
        if self._wake is not None:
            self._wake.cancel()
            with suppress(asyncio.CancelledError):
                await self._wake

    async def _wake_up(self) -> None:
        log.info("machine_waking", machine=self.settings.name, reason=self.reason)
        failure = f"It did not answer after {self.service.attempts} magic packets. {HINT}"
        try:
            if not self.settings.wakeable:
                failure = f"Wake-on-LAN is not enabled on its network card. {HINT}"
            elif await self._until_awake():
                self._woke()
                return
        except OSError as error:
            failure = f"The magic packet could not be sent: {error}."
        finally:
            self._wake = None
        self.metrics.woken(self.settings.name, "failed")
        log.warning("machine_not_waking", machine=self.settings.name, reason=failure)
        self._now(State.FAILED, failure)

    async def _until_awake(self) -> bool:
        for _ in range(self.service.attempts):
            self._send()
            until = time.monotonic() + self.service.attempt_seconds
            while time.monotonic() < until:
                if await self._answers():
                    return True
                await asyncio.sleep(PROBE_PAUSE)
        return False

    def _send(self) -> None:
        """Send the packet to the broadcast address, and to the machine's own: its switch may
        still know where it is. Raises `OSError` if the broadcast cannot be sent."""
        packets.send(self.settings.mac, str(self.settings.broadcast_address))
        try:
            packets.send(self.settings.mac, str(self.settings.address.ip))
        except OSError as error:
            if error.errno not in (errno.EHOSTUNREACH, errno.EHOSTDOWN):
                raise
        self.metrics.packets.labels(self.settings.name).inc()

    def _woke(self) -> None:
        seconds = time.monotonic() - self._began
        self._woken = time.monotonic()
        self.times.append(round(seconds, 3))
        self.metrics.woken(self.settings.name, "awake", seconds)
        log.info("machine_woke", machine=self.settings.name, seconds=round(seconds, 1))
        self._now(State.AWAKE)
        self._learned()

    def _now(self, state: State, reason: str = "") -> None:
        if state is not self.state and State.WAKING not in (state, self.state):
            log.info("machine_state", machine=self.settings.name, state=state)
        self.state, self.reason = state, reason
        self.metrics.awake.labels(self.settings.name).set(state is State.AWAKE)

    async def _answers(self) -> bool:
        """Return whether it answers a connection: a refusal is an answer, too."""
        address, port = str(self.settings.address.ip), self.settings.port
        try:
            async with asyncio.timeout(self.service.probe_seconds):
                _, writer = await asyncio.open_connection(address, port)
        except ConnectionRefusedError:
            return True
        except OSError:  # no route, no answer, or `TimeoutError`
            return False
        writer.close()
        return True


def _p50_p95(times: Sequence[float]) -> tuple[float | None, float | None]:
    if not times:
        return None, None
    if len(times) == 1:
        return times[0], times[0]
    cuts = quantiles(times, n=20, method="inclusive")
    return cuts[9], cuts[18]
