"""The keys that people made with `hearth keys`, and what each has used: one SQLite file.

A key is kept as its SHA-256 digest: it is shown once, when it is made. No prompt is kept anywhere.
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from hearth.service.names import BUILT_IN_KEYS, RESTORED
from hearth.service.settings import SettingsError

PREFIX: Final = "sk-hearth-"
VERSION: Final = 2
SETTLED_SECONDS: Final = 2.0
"""Longer than a commit takes from its first byte on the disk until others see it."""
SCHEMA: Final = """
CREATE TABLE key (
    name TEXT PRIMARY KEY, digest BLOB NOT NULL UNIQUE, ending TEXT NOT NULL,
    created TEXT NOT NULL, revoked TEXT, limits TEXT NOT NULL
) STRICT;
CREATE TABLE usage (
    name TEXT NOT NULL, day TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, prompt INTEGER NOT NULL, completion INTEGER NOT NULL,
    PRIMARY KEY (name, day, model)
) STRICT, WITHOUT ROWID;
"""
WITH_SCOPES: Final = """
UPDATE key SET limits = json_set(limits, '$.scopes', json('["chat", "workflows", "exec"]'));
PRAGMA user_version = 2;
"""
"""Keys of version 1 opened every model; they go on doing so."""


class Scope(StrEnum):
    """The kinds of models and routes that a key permits; see `Limits`."""

    CHAT = "chat"
    WORKFLOWS = "workflows"
    EXEC = "exec"
    ADMIN = "admin"


SCOPES: Final = tuple(str(scope) for scope in Scope)


class KeyProblem(Exception):
    """Do what the sentence says, then try again."""


class UnknownKey(KeyProblem):
    """See `hearth keys list` for the names."""


class NameTaken(KeyProblem):
    """Choose another name, or revoke the key that has it."""


@dataclass(frozen=True)
class Limits:
    """The limits of one key. None: no limit. `models` are names, or patterns such as `workflow/*`.

    `scopes`: `chat` opens experts and what has no effects but words; `workflows` opens those that
    read and write files, ask the web or people; `exec` those that run programs; `admin` opens all
    of that and the keys themselves.
    """

    models: tuple[str, ...] = ("*",)
    scopes: tuple[str, ...] = ("chat",)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None


@dataclass(frozen=True)
class StoredKey:
    """A key without the key. `ending` are its last four characters, to tell keys apart."""

    name: str
    digest: bytes
    ending: str
    created: str
    revoked: str | None
    limits: Limits


@dataclass(slots=True)
class Usage:
    """The usage of one model with one key on one day (UTC); it only grows."""

    requests: int = 0
    prompt: int = 0
    completion: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.requests + other.requests,
            self.prompt + other.prompt,
            self.completion + other.completion,
        )

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


@dataclass(frozen=True)
class KeyStore:
    """The file; made at the first use. Each call opens it, so nothing is shared over threads."""

    path: Path

    def state(self) -> object:
        """Return the state of the file; it is equal to an earlier one if nothing has changed. A
        state right after a change is equal to no other one, as it may be incomplete.

        Opening the file every second took a millisecond of a processor each time.
        """
        try:
            found = [one.stat() for one in (self.path, Path(f"{self.path}-wal")) if one.exists()]
        except OSError:
            return object()
        if any(time.time() - one.st_mtime < SETTLED_SECONDS for one in found):
            return object()
        return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]

    def add(self, name: str, limits: Limits, taken: Collection[str] = ()) -> str:
        """Make a key and give it away, this once; `taken` are names of the house's own keys beside
        the known ones. Raises `NameTaken`."""
        if name in BUILT_IN_KEYS or name in taken:
            raise NameTaken(f"The house's own key has the name {name!r}: choose another name.")
        key = f"{PREFIX}{secrets.token_hex(24)}"
        row = (name, digest(key.encode()), key[-4:], now(), json.dumps(asdict(limits)))
        with self._open() as db:
            try:
                db.execute("INSERT INTO key VALUES (?, ?, ?, ?, NULL, ?)", row)
            except sqlite3.IntegrityError as error:
                raise NameTaken(f"There is a key {name!r} already.") from error
        return key

    def limit(self, name: str, limits: Limits) -> None:
        """Give the key other limits. Raises `UnknownKey`."""
        with self._open() as db:
            done = db.execute(
                "UPDATE key SET limits = ? WHERE name = ? AND revoked IS NULL",
                (json.dumps(asdict(limits)), name),
            )
            self._need_one(done.rowcount, name)

    def revoke(self, name: str) -> None:
        """Close the key for good; what it has used stays known. Raises `UnknownKey`."""
        with self._open() as db:
            done = db.execute(
                "UPDATE key SET revoked = ? WHERE name = ? AND revoked IS NULL", (now(), name)
            )
            self._need_one(done.rowcount, name)

    def all(self) -> list[StoredKey]:
        """All of them, revoked ones too, the oldest first."""
        with self._open() as db:
            rows = db.execute("SELECT * FROM key ORDER BY created, name").fetchall()
        return [
            StoredKey(name, known, ending, created, revoked, _limits(limits))
            for name, known, ending, created, revoked, limits in rows
        ]

    def use(self, used: Mapping[tuple[str, str, str], Usage]) -> None:
        """Add what was used, by name of the key, day and model."""
        with self._open() as db:
            db.executemany(
                "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " requests = requests + excluded.requests, prompt = prompt + excluded.prompt,"
                " completion = completion + excluded.completion",
                [(*where, one.requests, one.prompt, one.completion) for where, one in used.items()],
            )

    def usage(self, day: str) -> dict[str, Usage]:
        """Return the usage of each key on that day, over all models."""
        with self._open() as db:
            rows = db.execute(
                "SELECT name, SUM(requests), SUM(prompt), SUM(completion) FROM usage"
                " WHERE day = ? GROUP BY name",
                (day,),
            ).fetchall()
        return {name: Usage(*counts) for name, *counts in rows}

    @property
    def restored(self) -> Path:
        """The keys of a restored backup; the file exists until it is imported."""
        return Path(f"{self.path}{RESTORED}")

    @property
    def has_restored(self) -> bool:
        """Whether there is one that can be reached."""
        try:
            return self.restored.exists()
        except OSError:
            return False

    def take_in_restored(self) -> None:
        """Add the keys, and what they used, that only the restored backup knows; what is known
        here stays as it is, so a key that was closed since does not open again.

        Raises `SettingsError` for a backup that cannot be read; it is laid aside then.
        """
        try:
            KeyStore(self.restored).all()  # Brings its tables up to our version.
            with self._open() as db:
                db.execute("ATTACH ? AS restored", (str(self.restored),))
                db.execute("INSERT OR IGNORE INTO key SELECT * FROM restored.key")
                db.execute("INSERT OR IGNORE INTO usage SELECT * FROM restored.usage")
        except SettingsError:
            self.restored.replace(f"{self.restored}.unusable")
            raise
        self.restored.unlink()

    def _need_one(self, count: int, name: str) -> None:
        if count == 0:
            raise UnknownKey(f"There is no key {name!r}: see `hearth keys list`.")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if not self.path.exists():
                self.path.touch(mode=0o600)
            with closing(sqlite3.connect(self.path, timeout=5)) as db, db:
                self._prepare(db)
                yield db
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, sqlite3.IntegrityError):
                raise
            raise SettingsError(f"The keys in {self.path} cannot be used: {error}.") from error

    def _prepare(self, db: sqlite3.Connection) -> None:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(f"{SCHEMA} PRAGMA user_version = {VERSION};")
        elif version == 1:
            db.executescript(WITH_SCOPES)
        elif version > VERSION:
            raise SettingsError(f"{self.path} is of a newer Hearth: update this one.")


def row_of(key: StoredKey, used: Usage) -> dict[str, Any]:
    """Return the public properties of a key."""
    return {
        "name": key.name,
        "key": f"…{key.ending}",
        "created": key.created,
        "revoked": key.revoked,
        **asdict(key.limits),
        "today": {"requests": used.requests, "tokens": used.tokens},
    }


def digest(key: bytes) -> bytes:
    """Return the digest of a key. A key has 192 random bits, so a fast hash is sufficient."""
    return sha256(key).digest()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def today() -> str:
    """The day that budgets count by, in UTC: `2026-11-22`."""
    return _day(time.time() // 86_400)


@lru_cache(2)
def _day(number: float) -> str:
    return (date(1970, 1, 1) + timedelta(number)).isoformat()


def _limits(text: str) -> Limits:
    fields = json.loads(text)
    lists = {name: tuple(fields[name]) for name in ("models", "scopes")}
    return Limits(**{**fields, **lists})
