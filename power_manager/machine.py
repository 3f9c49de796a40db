"""One machine that may sleep: its state, one wake at a time, and whether it may go to sleep."""

import asyncio
import errno
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from statistics import quantiles
from typing import Final, Literal

import structlog
from pydantic import BaseModel

from power_manager import packets
from power_manager.holds import HoldReport, Holds, StoredHold
from power_manager.metrics import Metrics
from power_manager.settings import MachineSettings, Settings

log = structlog.get_logger()

PROBE_PAUSE: Final = 0.25
"""Seconds between two probes while a machine wakes up."""

REMEMBERED: Final = 50
"""Wakes whose times are kept."""

ASKS_SECONDS: Final = 600.0
"""A machine that has not asked for so long does not ask any more."""

NEVER_SEEN: Final = (
    "Nothing on it asks whether it may sleep: hearth-sleep.timer does not run there."
)

NOT_WAKEABLE: Final = "Nothing could wake it: wake-on-LAN is not enabled on its network card."

HINT: Final = (
    "Check that wake-on-LAN is enabled in its firmware, that it is connected by cable, and that it"
    " is in the network to whose broadcast address the packet is sent."
)


class State(StrEnum):
    """The state of a machine."""

    UNKNOWN = "unknown"
    AWAKE = "awake"
    DRAINING = "draining"
    """It may sleep soon, and still answers."""
    ASLEEP = "asleep"
    WAKING = "waking"
    FAILED = "failed"
    """It did not wake up; the next wake tries again."""


class MachineReport(BaseModel):
    """One machine, as the API shows it."""

    name: str
    state: State
    reason: str
    """Why it is being woken, why that failed, or why it stays awake; may be empty."""
    mac: str
    address: str
    elapsed_seconds: float | None
    """Since the current wake began."""
    woken_seconds_ago: float | None
    """Since its last wake ended; null if it was never woken."""
    wake_seconds_p50: float | None
    wake_seconds_p95: float | None
    """Of the last wakes; null before the first one."""
    holds: list[HoldReport]
    """Users and services that need it awake."""
    idle_seconds: float
    """Time without a hold."""
    sleep_after_seconds: float | None
    """It goes to sleep when it was idle for so long; null: only when a person asks for it."""
    sleep_requested: bool
    """A person wants it to sleep when it asks next."""
    asked_seconds_ago: float | None
    """Since the machine last asked whether it may sleep; null: it never did."""


class Advice(BaseModel):
    """The answer to a machine that asks whether it may sleep."""

    advice: Literal["stay", "ask_again", "sleep"]
    seconds: float
    """With `ask_again`: when."""
    reason: str


class Machine:
    """Knows whether a machine is awake, wakes it, and tells it when it may sleep.

    `learned` is called when the wake times or the long holds have changed.
    """

    def __init__(
        self,
        settings: MachineSettings,
        service: Settings,
        metrics: Metrics,
        times: Sequence[float] = (),
        holds: Mapping[str, StoredHold] | None = None,
        learned: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings, self.service, self.metrics = settings, service, metrics
        self.times = deque(times, maxlen=REMEMBERED)
        self.holds = Holds(holds or {})
        self.state, self.reason = State.UNKNOWN, ""
        self._learned = learned
        self._asked: float | None = None
        self._wanted_asleep = False
        """A person wants it to sleep now."""
        self._dismissed = False
        """It drains, and was allowed to sleep."""
        self._leaves_by = 0.0
        """When a machine that drains no longer answers, or stays awake after all."""
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
            holds=self.holds.report(),
            idle_seconds=self.holds.idle_seconds,
            sleep_after_seconds=self.sleep_after,
            sleep_requested=self._wanted_asleep,
            asked_seconds_ago=None if self._asked is None else now - self._asked,
        )

    @property
    def sleep_after(self) -> float | None:
        """Idle time after which it may sleep; None: never by itself."""
        own = self.settings.sleep_after_seconds
        return self.service.sleep_after_seconds if own is None else own

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
        if awake and self.state is State.DRAINING:
            if time.monotonic() > self._leaves_by:
                self._stays("It did not go to sleep in time.")
        elif awake:
            if self.state is not State.AWAKE:
                self.holds.touch()
                self._now(State.AWAKE)
        elif self.state is not State.FAILED:
            self._now(State.ASLEEP)

    async def wake(self, reason: str) -> MachineReport:
        """Wake it if it does not answer, and return its state at once: `awake` or `waking`.

        Any number of callers share one wake. `reason` is shown and logged. A machine that drains
        stays awake; one that may already sleep is woken when it is asleep.
        """
        self._wanted_asleep = False
        if self._wake is None:
            if not self._leaving and await self._answers():
                self.holds.touch()
                if self.state is not State.AWAKE:
                    self._stays(reason)
            elif self._wake is None:
                self._began = time.monotonic()
                self._now(State.WAKING, reason)
                self._wake = asyncio.create_task(self._wake_up())
        return self.report()

    @property
    def _leaving(self) -> bool:
        return self.state is State.DRAINING and self._dismissed

    async def hold(self, holder: str, reason: str, seconds: float, *, wake: bool) -> MachineReport:
        """Keep it awake for so long; with `wake`, wake it if it sleeps."""
        before = self.holds.long()
        self.holds.put(holder, reason, seconds)
        if before != self.holds.long():
            self._learned()
        if wake or self.state is State.DRAINING:
            return await self.wake(reason)
        return self.report()

    def release(self, holder: str) -> None:
        """End a hold."""
        before = self.holds.long()
        self.holds.release(holder)
        if before != self.holds.long():
            self._learned()

    def sleep(self) -> str:
        """Let it sleep when it asks next, without the idle time.

        Returns an empty text, or the reason why that is not possible.
        """
        if not self.settings.wakeable:
            return NOT_WAKEABLE
        if self.state is State.ASLEEP:
            return ""
        if self._asked is None or time.monotonic() - self._asked > ASKS_SECONDS:
            return NEVER_SEEN
        if refusal := self._needed():
            return refusal
        self._wanted_asleep = True
        return ""

    def advise(self, busy: str) -> Advice:
        """Tell the machine itself whether it may sleep now.

        It asks again after a short time, so that requests that arrive meanwhile keep it awake.

        Args:
            busy: The reason for which the machine stays awake, such as a logged-in person;
                empty if there is none.
        """
        self._asked = time.monotonic()
        if self._leaving:
            busy = busy or "It is awake again."
        if busy or self.state in (State.ASLEEP, State.FAILED):  # Its button is faster than `check`.
            self.holds.touch()
        if refusal := self._refusal(busy):
            if self._wake is None:
                self._stays(refusal)
            self._dismissed = False  # It asks, so it is awake.
            return Advice(advice="stay", seconds=0, reason=refusal)
        reason = self._cause()
        self._leaves_by = self._asked + self.service.suspend_seconds
        if self.state is not State.DRAINING:
            self._leaves_by += self.service.quiet_seconds
            self._dismissed = False
            log.info("machine_draining", machine=self.settings.name, reason=reason)
            self._now(State.DRAINING, reason)
            return Advice(advice="ask_again", seconds=self.service.quiet_seconds, reason=reason)
        self._wanted_asleep, self._dismissed = False, True
        self.metrics.sleeps.labels(self.settings.name).inc()
        log.info("machine_may_sleep", machine=self.settings.name, reason=reason)
        return Advice(advice="sleep", seconds=0, reason=reason)

    def _refusal(self, busy: str) -> str:
        """Return why it may not sleep now, or an empty text."""
        if not self.settings.wakeable:
            return NOT_WAKEABLE
        if refusal := busy or self._needed():
            return refusal
        if self._wanted_asleep:
            return ""
        after = self.sleep_after
        if after is None:
            return "It has no idle time after which it sleeps."
        idle = self.holds.idle_seconds
        if idle < after:
            return f"It was idle for {idle:.0f} s of {after:.0f} s."
        return ""

    def _needed(self) -> str:
        """Return the user or service that needs it awake now, or an empty text."""
        if self._wake is not None:
            return f"It is being woken: {self.reason}."
        for holder, one in self.holds.now().items():
            return f"{holder} needs it: {one.reason}."
        return ""

    def _cause(self) -> str:
        if self._wanted_asleep:
            return "A person asked for it."
        return f"It was idle for {self.holds.idle_seconds:.0f} s."

    def _stays(self, reason: str) -> None:
        """It is awake, and stays so, for a reason that is logged if it was about to sleep."""
        if self.state is State.DRAINING:
            log.info("machine_stays_awake", machine=self.settings.name, reason=reason)
        self._wanted_asleep = self._dismissed = False
        self._now(State.AWAKE, reason)

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
            await self._until_gone()
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

    async def _until_gone(self) -> None:
        """Wait until a machine that was allowed to sleep no longer answers: a packet before that
        would be lost. One that does not go is awake."""
        while self._dismissed and time.monotonic() < self._leaves_by:
            if not await self._answers():
                break
            await asyncio.sleep(PROBE_PAUSE)
        self._dismissed = False

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
        self.holds.touch()
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
