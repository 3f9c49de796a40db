"""Wake the machine of a model that is asked for while its machine sleeps."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import Any, Final, Literal

import orjson
import structlog
from pydantic import BaseModel, ValidationError

from hearth.service.settings import read_key
from moe_gateway.errors import machine_asleep, machine_failed
from moe_gateway.http.connection import Address, UpstreamError
from moe_gateway.http.pool import Pool
from moe_gateway.routing.instances import Instance
from moe_gateway.settings import Settings

log = structlog.get_logger()

WakePolicy = Literal["wait", "smaller", "refuse"]

CHECK_SECONDS: Final = 0.1
"""Pause between two looks at the instances of the machine."""

ASK_SECONDS: Final = 1.0
"""Pause between two requests to the power manager during a wake."""

ANSWER_SECONDS: Final = 5.0
"""Within which the power manager must answer."""

MAX_ANSWER: Final = 65_536
"""Bytes."""

STARTING_SECONDS: Final = 180.0
"""Time after a wake in which the expert of the machine may still load its model."""

USUAL_SECONDS: Final = 60.0
"""Expected time of a wake that was never measured."""


class MachineState(BaseModel):
    """The state of a machine, as the power manager reports it; other fields are ignored."""

    name: str
    state: str
    reason: str = ""
    elapsed_seconds: float | None = None
    woken_seconds_ago: float | None = None
    wake_seconds_p95: float | None = None

    @property
    def seconds_left(self) -> float:
        """The time that the wake will probably still take."""
        expected = self.wake_seconds_p95 or USUAL_SECONDS
        return max(1.0, expected - (self.elapsed_seconds or 0.0))

    @property
    def starting(self) -> bool:
        """Whether the machine is awake since so short a time that its experts may still start."""
        ago = self.woken_seconds_ago
        return self.state == "awake" and ago is not None and ago < STARTING_SECONDS


class PowerManager:
    """The power manager, as the gateway sees it: it answers with the state of a machine."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        """Raises `SettingsError` if the file of the key cannot be read."""
        assert settings.power_url is not None
        self._address, self._pool = Address.of(str(settings.power_url)), pool
        self._key = read_key(settings.power_key_file).encode() if settings.power_key_file else b""

    async def post(self, machine: str, what: str, body: dict[str, Any]) -> MachineState | None:
        """Wake or hold a machine; see `_state_of` for what is returned."""
        answer = self._pool.post(
            self._address,
            f"/api/machines/{machine}/{what}",
            orjson.dumps(body),
            key=self._key,
            seconds=ANSWER_SECONDS,
            limit=MAX_ANSWER,
        )
        return await self._state_of(machine, answer)

    async def look(self, machine: str) -> MachineState | None:
        """Return the state of a machine; see `_state_of`."""
        path = f"/api/machines/{machine}"
        answer = self._pool.get(self._address, path, key=self._key, seconds=ANSWER_SECONDS)
        return await self._state_of(machine, answer)

    async def _state_of(
        self, machine: str, answer: Awaitable[tuple[int, bytes]]
    ) -> MachineState | None:
        """Return the state in an answer of the power manager; None if the machine is not one that
        may sleep, or if the power manager does not answer, which is logged."""
        try:
            status, body = await answer
            if status == 404:
                return None
            if status == 200:
                return MachineState.model_validate_json(body)
            reason = f"HTTP {status}: {body[:200].decode('utf-8', 'replace')}"
        except (UpstreamError, ValidationError) as error:
            reason = str(error)
        log.warning("power_manager_unavailable", machine=machine, reason=reason)
        return None


class Waker:
    """Asks the power manager to wake machines; many requests share its one wake."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        """Raises `SettingsError` if the file of the key cannot be read."""
        self._manager = PowerManager(settings, pool)
        self._seconds = settings.wake_seconds
        self._looking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._looked: dict[str, tuple[float, MachineState | None]] = {}
        """When each machine was looked at last, and its state then."""
        self._begun: set[asyncio.Task[MachineState | None]] = set()

    async def wait(
        self,
        model: str,
        instances: Sequence[Instance],
        shown: Callable[[Callable[[], str]], None],
    ) -> bool:
        """Wake the machine of these instances, and wait until one of them can be used.

        Returns False if the machine does not sleep: none of them may sleep, or it woke up and its
        model was not ready in time.
        `shown` is called once, with a function that returns the progress as a sentence. Raises
        `Refused` (503) if the machine does not wake up in time.
        """
        first = await self.begin(model, instances)
        if first is None:
            return False
        state = first
        shown(lambda: _progress(state))
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds
        while True:
            again = loop.time() + ASK_SECONDS
            while loop.time() < again:
                if state.state == "awake" and any(one.usable for one in instances):
                    return True
                await asyncio.sleep(CHECK_SECONDS)
            if loop.time() > until:
                if state.state == "awake":
                    return False  # Its model was not ready in time: that is the error.
                raise machine_asleep(model, state.name, state.seconds_left)
            state = await self._next(model, state)

    async def _next(self, model: str, state: MachineState) -> MachineState:
        """Return the state of the machine now, or the one before if it cannot be read. Raises
        `Refused` if its wake failed."""
        now = await self._look(state.name) or state
        if now.state == "failed":
            raise machine_failed(model, now.name, now.reason)
        if now.state in ("asleep", "unknown"):  # The power manager was restarted.
            now = await self._wake(now.name, model) or now
        return now

    def begin_soon(self, model: str, instances: Sequence[Instance]) -> None:
        """Wake the machine of these instances without waiting for it."""
        task = asyncio.create_task(self.begin(model, instances))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)

    async def begin(self, model: str, instances: Sequence[Instance]) -> MachineState | None:
        """Wake the first machine of these instances that sleeps, and return its state.

        Returns None if there is none, or if the power manager cannot be reached, which is logged.
        """
        for machine in _machines(instances):
            state = await self._wake(machine, model)
            if state is not None and (state.state == "waking" or state.starting):
                return state
        return None

    async def _wake(self, machine: str, model: str) -> MachineState | None:
        reason = f"the model {model[:100]} is needed"
        return await self._manager.post(machine, "wake", {"reason": reason})

    async def _look(self, machine: str) -> MachineState | None:
        """Return the state of the machine; requests that wait at the same time share an answer."""
        async with self._looking[machine]:
            now = asyncio.get_running_loop().time()
            at, state = self._looked.get(machine, (-inf, None))
            if now - at >= ASK_SECONDS:
                state = await self._manager.look(machine)
                self._looked[machine] = now, state
            return state


def _machines(instances: Iterable[Instance]) -> list[str]:
    return list(dict.fromkeys(one.machine for one in instances if one.machine))


def _progress(state: MachineState) -> str:
    if state.state == "waking":
        return f"machine {state.name} is waking up, about {state.seconds_left:.0f} s"
    return f"machine {state.name} is awake, its model is being loaded"
