"""Who may call."""

import asyncio
import hmac
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

import pytest

from hearth.openai_api.usage import TokenCount
from hearth.service.http_errors import Refused
from hearth.service.settings import SettingsError
from moe_gateway.keys import keyring
from moe_gateway.keys.keyring import Keyring
from moe_gateway.keys.limits import Bucket, Caller
from moe_gateway.keys.store import (
    KeyStore,
    Limits,
    NameTaken,
    StoredKey,
    UnknownKey,
    Usage,
    today,
)


class Slow(KeyStore):
    """Holds what is written until it may go on."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writing, self.go_on = threading.Event(), threading.Event()

    def use(self, used: Mapping[tuple[str, str, str], Usage]) -> None:
        self.writing.set()
        self.go_on.wait(60)
        super().use(used)


async def test_stop_while_usage_is_written_counts_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets are of a day, and each restart would take from them."""
    monkeypatch.setattr(keyring, "LOOK_SECONDS", 0.01)
    store = Slow(tmp_path / "keys.db")
    key = store.add("tablet", Limits())
    keys = Keyring([], store)
    caller = keys.caller_of(b"Bearer " + key.encode())
    assert caller is not None
    keys.used(caller, "small", TokenCount(3, 4))

    running = asyncio.create_task(keys.run())
    assert await asyncio.to_thread(store.writing.wait, 60)
    running.cancel()
    store.go_on.set()
    await asyncio.gather(running, return_exceptions=True)
    await keys.look()  # One at a time: what was under way is over.
    await asyncio.get_running_loop().shutdown_default_executor()

    assert store.usage(today())["tablet"].tokens == 7


class Counted(KeyStore):
    """Counts how often it is read; while it is `away`, it cannot be."""

    reads: ClassVar = 0
    away: ClassVar = False

    def all(self) -> list[StoredKey]:
        Counted.reads += 1
        if self.away:
            raise SettingsError("It cannot be read.")
        return super().all()


async def test_stop_with_a_file_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk must not make a crash of an orderly end; what is lost is told."""
    store = KeyStore(tmp_path / "keys.db")
    store.add("tablet", Limits())
    keys = Keyring([], store)
    keys.used(keys.callers()[0], "small", None)
    running = asyncio.create_task(keys.run())
    await asyncio.sleep(0)
    store.path.write_bytes(b"no database" * 1000)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    log = capsys.readouterr().out
    assert log.count("usage_not_written") == 1
    assert "requests=1" in log


def long_ago(store: KeyStore) -> None:
    """As if the last change had been made an hour before."""
    for file in store.path.parent.glob(f"{store.path.name}*"):
        os.utime(file, (time.time() - 3600,) * 2)


REVOKE = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("UPDATE key SET revoked = 'now' WHERE name = 'tablet'")
"""


async def test_keys_are_read_when_somebody_has_changed_them_and_not_else(tmp_path: Path) -> None:
    """A gateway that nobody asks looks every second, for years: it opens nothing for that."""
    store, other = Counted(tmp_path / "keys.db"), KeyStore(tmp_path / "keys.db")
    keys = Keyring([], store)

    async def names_after(change: Callable[[], object]) -> list[str]:
        long_ago(store)
        await keys.look()
        before = Counted.reads
        await keys.look()
        assert Counted.reads == before, "nobody has changed anything"
        change()
        await keys.look()
        return sorted(caller.name for caller in keys.callers())

    def revoke_elsewhere() -> None:
        subprocess.run([sys.executable, "-c", REVOKE, str(store.path)], check=True)

    def replace() -> None:
        KeyStore(tmp_path / "restored").add("restored", Limits())
        (tmp_path / "restored").replace(store.path)

    assert await names_after(lambda: other.add("tablet", Limits())) == ["tablet"]
    assert await names_after(lambda: other.add("phone", Limits())) == ["phone", "tablet"]
    assert await names_after(revoke_elsewhere) == ["phone"]
    with closing(sqlite3.connect(store.path)) as holder:
        holder.execute("SELECT * FROM key").fetchall()  # So the change stays in the log beside it.
        assert await names_after(lambda: other.revoke("phone")) == []
    assert await names_after(replace) == ["restored"]
    assert await names_after(store.path.unlink) == []


async def test_change_that_is_seen_too_early_or_not_readable_is_read_later(tmp_path: Path) -> None:
    """A key that was closed must not stay open because of the moment in which that was seen."""
    store = Counted(tmp_path / "keys.db")
    keys = Keyring([], store)
    await keys.look()
    before = Counted.reads
    await keys.look()
    assert Counted.reads == before + 1, "it was changed just now"
    store.add("tablet", Limits())
    long_ago(store)
    Counted.away = True
    await keys.look()
    Counted.away = False
    await keys.look()

    assert keys.named("tablet") is not None


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Bearer sk-a", "key"),
        (b"bearer  sk-b ", "service_key"),
        (b"Bearer sk-c", None),
        (b"Bearer ", None),
        (b"Basic sk-a", None),
        (b"sk-a", None),
        (b"", None),
    ],
)
def test_only_a_known_bearer_key_opens(header: bytes, name: str | None) -> None:
    """Everything but the whole key is nobody's."""
    keys = Keyring([("key", "sk-a"), ("service_key", "sk-b")])

    caller = keys.caller_of(header)

    assert (caller.name if caller else None) == name


def test_whole_digest_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a refusal takes must not tell how much of a guess was right."""
    keys = Keyring([("key", "sk-a")])
    compared: list[tuple[bytes, bytes]] = []

    def compare(kept: bytes, told: bytes) -> bool:
        compared.append((kept, told))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)

    assert keys.caller_of(b"Bearer sk-a") is None
    assert compared == [(sha256(b"sk-a").digest(),) * 2]


def test_keys_come_from_files_and_are_not_kept(tmp_path: Path) -> None:
    """A dump of the object shows no key."""
    (tmp_path / "key").write_text("sk-secret\n")
    keys = Keyring.from_files([tmp_path / "key"])

    caller = keys.caller_of(b"Bearer sk-secret")

    assert caller is not None
    assert caller.name == "key"
    assert "sk-secret" not in repr(vars(keys))


def test_key_is_kept_as_its_digest_only(tmp_path: Path) -> None:
    """Whoever gets the file, or a backup of it, gets no key."""
    store = KeyStore(tmp_path / "keys.db")
    key = store.add("tablet", Limits())

    files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert key.encode() not in files
    assert (tmp_path / "keys.db").stat().st_mode & 0o077 == 0
    assert Keyring([], store).caller_of(b"Bearer " + key.encode())


def test_keys_of_an_older_hearth_open_what_they_opened(tmp_path: Path) -> None:
    """They were made when there were no scopes; an update must not lock their owners out."""
    store = KeyStore(tmp_path / "keys.db")
    store.add("tablet", Limits(tokens_per_day=9))
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE key SET limits = json_remove(limits, '$.scopes')")
        db.execute("PRAGMA user_version = 1")

    (key,) = store.all()

    assert key.limits == Limits(scopes=("chat", "workflows", "exec"), tokens_per_day=9)


def test_name_is_used_once_even_after_it_was_revoked(tmp_path: Path) -> None:
    """The usage of two different keys under one name would tell nothing."""
    store = KeyStore(tmp_path / "keys.db")
    store.add("tablet", Limits())
    store.revoke("tablet")

    with pytest.raises(NameTaken, match="tablet"):
        store.add("tablet", Limits())
    with pytest.raises(UnknownKey, match="hearth keys list"):
        store.revoke("tablet")
    with pytest.raises(UnknownKey):
        store.limit("phone", Limits())


def test_store_of_a_newer_hearth_is_left_alone(tmp_path: Path) -> None:
    """An older program would not understand what the newer one has promised to its callers."""
    path = tmp_path / "keys.db"
    KeyStore(path).all()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")

    with pytest.raises(SettingsError, match="newer"):
        KeyStore(path).all()
    path.write_text("not a database, but long enough to be taken for one" * 50)
    with pytest.raises(SettingsError, match=r"keys\.db"):
        KeyStore(path).all()


@pytest.mark.parametrize(
    ("limits", "model", "code"),
    [
        (Limits(), "small", None),
        (Limits(models=("small", "workflow/*")), "workflow/summarize", None),
        (Limits(models=("small", "workflow/*")), "agent", "model_not_allowed"),
        (Limits(scopes=("workflows",)), "small", "scope_missing"),
        (Limits(scopes=("admin",)), "small", None),
        (Limits(requests_per_minute=2), "small", "requests_per_minute"),
        (Limits(tokens_per_minute=20), "small", "tokens_per_minute"),
        (Limits(tokens_per_day=20), "small", "insufficient_quota"),
    ],
)
def test_each_limit_is_refused_with_its_own_code(
    limits: Limits, model: str, code: str | None
) -> None:
    """A client has to tell waiting a minute from waiting until tomorrow."""
    caller = Caller("tablet")
    caller.limit(limits)
    refused: Refused | None = None
    for _ in range(3):
        try:
            caller.admit(model, "chat")
        except Refused as error:
            refused = error
        else:
            caller.used(TokenCount(7, 3))

    assert (refused.code if refused else None) == code
    if refused is not None:
        waits = dict(refused.headers or {}).get("retry-after")
        assert (waits is not None) == (code in ("requests_per_minute", "tokens_per_minute"))


def test_bucket_fills_evenly_and_pays_back_what_was_overdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an answer costs is known only afterwards."""
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    bucket = Bucket(60)
    bucket.take(90)

    assert bucket.wait(1) == 31
    now += 31
    assert bucket.wait(1) == 0
    now += 3600
    assert bucket.wait(60) == 0
    assert bucket.wait(61) == 1


def test_limits_that_change_leave_the_others_as_they_were() -> None:
    """Raising one limit must not give a fresh budget of the other."""
    caller = Caller("tablet", used_today=15)
    caller.limit(Limits(requests_per_minute=1, tokens_per_day=20))
    caller.admit("small", "chat")
    caller.limit(Limits(requests_per_minute=1, tokens_per_day=10))

    with pytest.raises(Refused, match="10 tokens of today"):
        caller.admit("small", "chat")
    caller.limit(Limits(requests_per_minute=1))
    with pytest.raises(Refused, match="1 requests a minute"):
        caller.admit("small", "chat")
    caller.limit(Limits())
    caller.admit("small", "chat")


def test_new_day_begins_with_a_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days are those of UTC; a gateway runs for months."""
    now = 20_000 * 86_400.0
    monkeypatch.setattr(time, "time", lambda: now)
    caller = Caller("tablet", used_today=5)
    caller.limit(Limits(tokens_per_day=20))
    caller.used(TokenCount(10, 10))
    now += 86_399
    with pytest.raises(Refused, match="20 tokens of today"):
        caller.admit("small", "chat")
    now += 1
    caller.admit("small", "chat")

    assert caller.used_today == 0


async def test_clock_that_jumps_gives_nobody_a_second_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small machines begin in the past, and learn the time once they are on the network."""
    store = KeyStore(tmp_path / "keys.db")
    key = store.add("tablet", Limits(tokens_per_day=20))
    store.use({("tablet", today(), "small"): Usage(1, 10, 15)})
    right = time.time()
    monkeypatch.setattr(time, "time", lambda: 86_400.0)
    keys = Keyring([], store)
    caller = keys.caller_of(b"Bearer " + key.encode())
    assert caller is not None
    caller.admit("small", "chat")
    await keys.look()

    monkeypatch.setattr(time, "time", lambda: right)
    await keys.look()

    with pytest.raises(Refused, match="20 tokens of today"):
        caller.admit("small", "chat")


def test_missing_key_file_is_named(tmp_path: Path) -> None:
    """The gateway never runs open because a file was not there."""
    with pytest.raises(SettingsError, match="gone"):
        Keyring.from_files([tmp_path / "gone"])


def test_overdrawn_minute_does_not_send_its_owner_to_sleep() -> None:
    """One long answer may cost hours of a small budget, and clients sleep what they are told."""
    caller = Caller("tablet")
    caller.limit(Limits(tokens_per_minute=10))
    caller.used(TokenCount(prompt=5_000, completion=5_000))

    with pytest.raises(Refused) as refused:
        caller.admit("small", "chat")

    assert refused.value.headers == {"retry-after": "60"}
    assert "ask again in 59" in refused.value.message, "people read how long it really is"
