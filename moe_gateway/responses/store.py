"""Responses that callers may refer to later, stored in memory for a limited time.

Nothing is written to disk: a restart of the gateway deletes them.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import orjson

from moe_gateway.keys.limits import Caller

Json = dict[str, Any]

SWEEP_SECONDS: Final = 10.0
"""An expired response is removed this many seconds later at most."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One response; `turns` has the items of its conversation up to and with its own output.

    Each turn is a JSON array. Responses of one conversation share the bytes of their turns.
    """

    body: bytes
    turns: tuple[bytes, ...]
    expires: float
    """In the seconds of `time.monotonic`."""

    @property
    def size(self) -> int:
        """Bytes that it may take; what it shares with other responses counts for each of them."""
        return len(self.body) + sum(map(len, self.turns))

    def items(self) -> list[Json]:
        """All items of the conversation, the oldest first."""
        return [item for turn in self.turns for item in orjson.loads(turn)]


class KeyResponses:
    """The responses of one key: at most `count`, of `bytes_limit` bytes together."""

    def __init__(self, seconds: float, count: int, bytes_limit: int) -> None:
        self._seconds, self._count, self._bytes_limit = seconds, count, bytes_limit
        self._kept: OrderedDict[str, StoredResponse] = OrderedDict()
        self.size = 0

    def takes(self, size: int) -> bool:
        """Return whether a response to a request of `size` bytes can be stored."""
        return self._seconds > 0 and self._count > 0 and size <= self._bytes_limit

    def keep(self, id: str, body: bytes, turns: tuple[bytes, ...]) -> None:
        """Keep a response; the oldest ones make room for it."""
        self._add(id, StoredResponse(body, turns, time.monotonic() + self._seconds))
        while len(self._kept) > self._count or self.size > self._bytes_limit:
            self.remove_oldest()

    def get(self, id: str) -> StoredResponse | None:
        """Return a response; None if there is none of this id, or its time is over."""
        self.remove_expired()
        return self._kept.get(id)

    def item(self, id: str) -> Json | None:
        """Return the output item of this id, from whichever response it is of."""
        self.remove_expired()
        wanted = orjson.dumps(id)
        for stored in reversed(self._kept.values()):
            if wanted in stored.body:
                output: list[Json] = orjson.loads(stored.body)["output"]
                if item := next((one for one in output if one.get("id") == id), None):
                    return item
        return None

    def remove(self, id: str) -> bool:
        """Remove a response; return whether there was one."""
        self.remove_expired()
        stored = self._kept.pop(id, None)
        self.size -= stored.size if stored else 0
        return stored is not None

    def remove_oldest(self) -> None:
        """Remove the oldest response."""
        _, stored = self._kept.popitem(last=False)
        self.size -= stored.size

    def remove_expired(self) -> None:
        """Remove the expired responses; all have the same lifetime."""
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values())).expires <= now:
            self.remove_oldest()

    def _add(self, id: str, stored: StoredResponse) -> None:
        self._kept[id] = stored
        self.size += stored.size


class ResponseStore:
    """The responses of all keys, in `bytes_limit` bytes together."""

    def __init__(
        self, seconds: float, count_per_key: int, bytes_per_key: int, bytes_limit: int
    ) -> None:
        self._limits = seconds, count_per_key, bytes_per_key
        self._bytes_limit = bytes_limit
        self._keys: dict[str, KeyResponses] = {}

    def of(self, caller: Caller) -> KeyResponses:
        """Return the responses of this caller's key; those of other keys are out of its reach."""
        found = self._keys.get(caller.name)
        if found is None:
            found = self._keys[caller.name] = KeyResponses(*self._limits)
        return found

    def make_room(self) -> None:
        """Remove the oldest responses of the keys that have most, down to the limit of all keys."""
        while sum(one.size for one in self._keys.values()) > self._bytes_limit:
            max(self._keys.values(), key=lambda one: one.size).remove_oldest()

    def forget(self, closed: Collection[Caller]) -> None:
        """Remove all responses of keys that are closed."""
        for caller in closed:
            self._keys.pop(caller.name, None)

    async def run(self) -> None:
        """Remove expired responses periodically, also without requests."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for one in self._keys.values():
                one.remove_expired()
