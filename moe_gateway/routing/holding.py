"""Keep machines awake whose models are in use, so that the power manager does not suspend them."""

import asyncio
from collections.abc import Sequence
from typing import Final

from moe_gateway.http.pool import Pool
from moe_gateway.routing.instances import Instance
from moe_gateway.routing.waking import PowerManager
from moe_gateway.settings import Settings

LOOK_SECONDS: Final = 1.0
"""Pause between two looks at the instances: shorter than the pause before a machine sleeps."""

HOLD_SECONDS: Final = 60.0
"""How long a machine is held after its last use; its idle time begins then."""

RENEW_SECONDS: Final = 20.0
"""A machine in use is held again after so long: two such requests may be lost."""


class Holding:
    """Tells the power manager which machines are in use."""

    def __init__(self, settings: Settings, pool: Pool, instances: Sequence[Instance]) -> None:
        """Raises `SettingsError` if the file of the key cannot be read."""
        self._manager, self._instances = PowerManager(settings, pool), instances
        self._answers: dict[str, int] = {}
        """Instance -> how many requests it had answered at the last look."""
        self._held: dict[str, float] = {}
        """Machine -> when it was held last, in seconds of the loop."""

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Hold each machine with an instance that was used since the last look."""
        now = asyncio.get_running_loop().time()
        for machine, used in self._used().items():
            if now - self._held.get(machine, -RENEW_SECONDS) < RENEW_SECONDS:
                continue
            # A machine that went to sleep in the middle of a request is woken for it.
            body = {
                "holder": "moe-gateway",
                "reason": f"the model {(used.expert or used.label)[:100]} is in use",
                "seconds": HOLD_SECONDS,
                "wake": used.in_flight > 0,
            }
            self._held[machine] = now  # Also one that never sleeps, which the answer says.
            await self._manager.post(machine, "holds", body)

    def _used(self) -> dict[str, Instance]:
        """Machine -> one of its instances that is in use now, or was since the last look."""
        before, found = self._answers, dict[str, Instance]()
        self._answers = {one.label: one.answers for one in self._instances}
        for one in self._instances:
            used = one.in_flight or one.busy_elsewhere or one.answers != before.get(one.label, 0)
            if one.machine and used and (one.in_flight or one.machine not in found):
                found[one.machine] = one
        return found
