"""What becomes of the keys that people made when a backup is restored."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hearth.service.settings import SettingsError
from moe_gateway.keys.keyring import Keyring
from moe_gateway.keys.store import KeyStore, Limits, Usage

DAY = "2026-11-23"


def restored(store: KeyStore) -> KeyStore:
    """What a restore lays beside the store."""
    return KeyStore(store.restored)


def laid_aside(folder: Path) -> list[str]:
    return [one.name for one in folder.glob("*.unusable")]


def state(store: KeyStore) -> dict[str, bool]:
    """Name -> whether it is open."""
    return {key.name: key.revoked is None for key in store.all()}


def test_what_only_the_backup_knows_comes_back(tmp_path: Path) -> None:
    """On a new disk, the tablet in the kitchen goes on; its budget is not given twice."""
    store = KeyStore(tmp_path / "keys.db")
    store.add("new", Limits())
    kept = restored(store)
    kept.add("tablet", Limits(tokens_per_day=9))
    kept.use({("tablet", DAY, "small"): Usage(1, 2, 3)})

    store.take_in_restored()

    assert state(store) == {"new": True, "tablet": True}
    assert {key.name: key.limits.tokens_per_day for key in store.all()}["tablet"] == 9
    assert store.usage(DAY) == {"tablet": Usage(1, 2, 3)}
    assert not store.restored.exists()


def test_key_that_was_closed_since_stays_closed(tmp_path: Path) -> None:
    """Who restores the notes of Monday does not let in whom they threw out on Tuesday."""
    store, kept = KeyStore(tmp_path / "keys.db"), restored(KeyStore(tmp_path / "keys.db"))
    store.add("guest", Limits())
    store.use({("guest", DAY, "small"): Usage(1, 2, 3)})
    with closing(sqlite3.connect(store.path)) as now, closing(sqlite3.connect(kept.path)) as then:
        now.backup(then)
    store.use({("guest", DAY, "small"): Usage(1, 2, 3)})
    store.revoke("guest")

    store.take_in_restored()

    assert state(store) == {"guest": False}
    assert store.usage(DAY) == {"guest": Usage(2, 4, 6)}


def test_keys_of_an_older_backup_open_what_they_opened(tmp_path: Path) -> None:
    """Their limits had no scopes yet."""
    store = KeyStore(tmp_path / "keys.db")
    store.add("new", Limits())
    kept = restored(store)
    kept.add("old", Limits())
    with closing(sqlite3.connect(kept.path)) as db, db:
        db.execute("UPDATE key SET limits = json_remove(limits, '$.scopes')")
        db.execute("PRAGMA user_version = 1")

    store.take_in_restored()

    assert {key.name: key.limits.scopes for key in store.all()} == {
        "new": ("chat",), "old": ("chat", "workflows", "exec"),
    }  # fmt: skip


@pytest.mark.parametrize("damage", ["damaged", "newer"])
async def test_backup_of_keys_that_cannot_be_read_is_laid_aside(
    tmp_path: Path, damage: str
) -> None:
    """It must not keep the gateway from seeing who is let in and thrown out."""
    store = KeyStore(tmp_path / "keys.db")
    kept = restored(store)
    kept.add("old", Limits())
    if damage == "damaged":
        kept.path.write_bytes(b"no database at all" * 100)
    else:
        with closing(sqlite3.connect(kept.path)) as db, db:
            db.execute("PRAGMA user_version = 99")
    ring = Keyring([], store)

    await ring.look()
    store.add("new", Limits())
    await ring.look()

    assert ring.named("new") is not None
    assert laid_aside(tmp_path) == ["keys.db.restored.unusable"]
    with pytest.raises(SettingsError):
        KeyStore(tmp_path / "keys.db.restored.unusable").all()


async def test_key_with_a_name_of_the_house_opens_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent would ask as the house for its owner: without limits, and even when it is closed.
    Such keys were made before those names were refused; that is told once."""
    store = KeyStore(tmp_path / "keys.db")
    kept = restored(store)
    keys = {name: kept.add(name, Limits()) for name in ("tablet", "phone")}
    with closing(sqlite3.connect(kept.path)) as db, db:
        db.execute("UPDATE key SET name = 'service_key' WHERE name = 'phone'")
    ring = Keyring([("service_key", "sk-of-the-house")], store)

    await ring.look()
    store.add("new", Limits())
    await ring.look()

    opened = {name: ring.caller_of(b"Bearer " + key.encode()) for name, key in keys.items()}
    assert opened["phone"] is None
    assert opened["tablet"] is ring.named("tablet") is not None
    house = ring.named("service_key")
    assert house is not None
    assert ring.is_of_house(house)
    told = [line for line in capsys.readouterr().out.splitlines() if "key_not_opened" in line]
    assert len(told) == 1
    assert "key_name=service_key" in told[0]
    assert "make another one with another name" in told[0]


async def test_gateway_that_runs_takes_them_in(tmp_path: Path) -> None:
    """The agent is restarted for a restore; the gateway is not."""
    store = KeyStore(tmp_path / "keys.db")
    store.add("new", Limits())
    ring = Keyring([], store)
    restored(store).add("tablet", Limits())

    await ring.look()

    assert ring.named("tablet") is not None
    assert ring.named("new") is not None
