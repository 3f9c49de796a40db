"""The valid keys: those of the files that the settings name, and those issued by users."""

import asyncio
import hmac
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

import structlog

from hearth.openai_api.usage import TokenCount
from hearth.service.http_errors import bearer_key
from hearth.service.names import BUILT_IN_KEYS
from hearth.service.settings import SettingsError, read_key
from moe_gateway.keys.limits import Caller
from moe_gateway.keys.store import KeyStore, StoredKey, Usage, digest, today

log = structlog.get_logger()

LOOK_SECONDS: Final = 1.0
"""An issued or revoked key takes effect after this time."""
INDEX_BYTES: Final = 16
"""Of a digest: enough that no two keys have the same ones."""
NOBODY: Final = (b"", None)


class Keyring:
    """The keys of this gateway, kept as SHA-256 digests.

    A digest is looked up by its beginning and then compared as a whole, in the same time wherever
    it differs. Keys demand a header that no foreign page can send along, so the gateway needs no
    check of the Host header against DNS rebinding.
    """

    def __init__(self, keys: Iterable[tuple[str, str]], store: KeyStore | None = None) -> None:
        """`keys` are pairs of name and key, without limits; `store` has the issued keys."""
        fixed = tuple(keys)
        self._fixed = {digest(key.encode()): Caller(name) for name, key in fixed}
        self.of_house: Final = BUILT_IN_KEYS | {name for name, _ in fixed}
        """Names that an issued key must not have: the agent would act as a built-in key."""
        self._left_out: set[str] = set()
        """Names of issued keys that are not valid; each was logged once."""
        self._store = store
        self._read: object = None
        """The state of the store when it was last read."""
        self._day = today()
        """The day whose usage was read."""
        self._made: dict[bytes, Caller] = {}
        self._names: dict[str, Caller] = {}
        self._opens: dict[bytes, tuple[bytes, Caller | None]] = {}
        self._used: dict[tuple[str, str, str], Usage] = {}
        self.as_of = datetime.now(UTC)
        """All changes of keys before this time have taken effect."""
        self._looking = asyncio.Lock()
        self.closed: Callable[[Collection[Caller]], None] = lambda callers: None
        """Called with the callers whose keys were revoked."""
        self._learn_names()
        if store is not None:
            self._take(store.all(), store.usage(today()))

    @classmethod
    def from_files(cls, paths: Iterable[Path], store: KeyStore | None = None) -> Self:
        """Read one key from each file; its name is that of the file. Raises `SettingsError`."""
        return cls(((path.name, read_key(path)) for path in paths), store)

    def caller_with(self, headers: Mapping[bytes, bytes]) -> Caller | None:
        """Return the caller with the key in the headers: a Bearer key, else Anthropic's header."""
        authorization = headers.get(b"authorization")
        if authorization is None:
            authorization = b"Bearer " + headers.get(b"x-api-key", b"")
        return self.caller_of(authorization)

    def caller_of(self, authorization: bytes) -> Caller | None:
        """Return the caller with the key in an `Authorization` header; None if it is not valid."""
        key = bearer_key(authorization)
        if key is None:
            return None
        told = digest(key)
        kept, caller = self._opens.get(told[:INDEX_BYTES], NOBODY)
        return caller if hmac.compare_digest(kept, told) else None

    def named(self, name: str) -> Caller | None:
        """Return the caller with the key of this name; None if it is revoked or unknown."""
        return self._names.get(name)

    def callers(self) -> list[Caller]:
        """Return the callers with a valid key."""
        return list(self._names.values())

    def is_of_house(self, caller: Caller) -> bool:
        """Return whether its key is one of the settings: only these may delegate."""
        return any(caller is one for one in self._fixed.values())

    def used(self, caller: Caller, model: str, count: TokenCount | None) -> None:
        """Count an answered request of this caller, with its tokens."""
        where = (caller.name, caller.used(count), model)
        used = self._used.get(where)
        if used is None:
            used = self._used[where] = Usage()
        used.requests += 1
        if count is not None:
            used.prompt += count.prompt
            used.completion += count.completion

    async def run(self) -> None:
        """Follow the store until cancelled; then write the remaining usage."""
        if self._store is None:
            return
        away = False
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                # A write in progress when the service stops must not be repeated.
                failure = await asyncio.shield(self._keep_up(self._store))
                if failure and not away:
                    log.error("keys_unreadable", reason=failure)
                if away and not failure:
                    log.info("keys_readable_again")
                away = bool(failure)
        finally:
            try:
                self._store.use(self._used)
            except SettingsError as error:
                lost = sum(used.requests for used in self._used.values())
                log.error("usage_not_written", requests=lost, reason=str(error))

    async def look(self) -> None:
        """Apply changes now; if the store cannot be read, they are applied later."""
        if self._store is not None:
            await self._keep_up(self._store)

    async def _keep_up(self, store: KeyStore) -> str:
        """Write the usage and read changes; returns the reason if that fails. One at a time: an
        older state must not be applied after a newer one."""
        async with self._looking:
            return await self._taken_in(store) or await self._kept_up(store)

    async def _taken_in(self, store: KeyStore) -> str:
        """Import restored keys; returns the reason if that fails."""
        if not store.has_restored:
            return ""
        try:
            await asyncio.to_thread(store.take_in_restored)
        except SettingsError as error:
            return str(error)
        log.info("restored_keys_taken_in")
        return ""

    async def _kept_up(self, store: KeyStore) -> str:
        (used, self._used), begun = (self._used, {}), datetime.now(UTC)
        try:
            if used:
                await asyncio.to_thread(store.use, used)
                used = {}
            state = store.state()
            if state != self._read:
                keys = await asyncio.to_thread(store.all)
                self._take(keys, await asyncio.to_thread(store.usage, today()))
                self._read = state
            if (day := today()) != self._day:
                for name, usage in (await asyncio.to_thread(store.usage, day)).items():
                    if (caller := self._names.get(name)) is not None:
                        caller.has_used(usage.tokens)
                self._day = day
            self.as_of = begun
        except SettingsError as error:
            return str(error)
        finally:
            for where, usage in used.items():
                self._used[where] = self._used.get(where, Usage()) + usage
        return ""

    def _take(self, keys: Iterable[StoredKey], usage: Mapping[str, Usage]) -> None:
        """Apply the keys of the store; existing callers keep their state."""
        known = {caller.name: caller for caller in self._made.values()}
        made = {}
        for key in keys:
            if key.revoked is None and self._may_open(key.name):
                used = usage.get(key.name, Usage()).tokens
                caller = known.get(key.name) or Caller(key.name, used_today=used)
                caller.limit(key.limits)
                made[key.digest] = caller
        gone = set(self._made.values()) - set(made.values())
        self._made = made
        self._learn_names()
        if gone:
            self.closed(gone)

    def _may_open(self, name: str) -> bool:
        """Return whether an issued key has a permitted name. A key with the name of a built-in one
        is older than this check, or comes from a backup; that is logged once."""
        if name in self.of_house and name not in self._left_out:
            self._left_out.add(name)
            reason = "The house's own key has this name: make another one with another name."
            log.error("key_not_opened", key_name=name, reason=reason)
        return name not in self.of_house

    def _learn_names(self) -> None:
        """Index all keys; a key of the settings precedes an equal issued one."""
        several = (*self._made.items(), *self._fixed.items())
        self._names = {caller.name: caller for _, caller in several}
        self._opens = {one[:INDEX_BYTES]: (one, caller) for one, caller in several}
