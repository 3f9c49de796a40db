"""Migrate state directories of older versions step by step, after a backup.

A directory with state but without a version file has version 0.
"""

import errno
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from hearth.files import write_atomic
from hearth.local.errors import StateDamaged, StateTooNew
from hearth.service.state import STATE_VERSION, StateDir

NOT_BACKED_UP = (
    *("backups", "models", "logs", "lock", "*-wal", "*-shm"),
    *("instance.json", "gateway-instances.json"),
)
"""Paths that a backup omits: model files can be downloaded again, and a copy of a database
includes its write-ahead log. The patterns apply only at the top level: a folder such as `models`
inside a workspace belongs to a user and is copied."""

NOT_YET_STATE = ("models", "logs", "backups", "lock", "expert.json")
"""Names that commands may create in a directory before an instance first runs on it."""


@dataclass(frozen=True)
class Migration:
    """One idempotent step from version `to - 1` to version `to`."""

    to: int
    about: str
    apply: Callable[[StateDir], None]


@dataclass(frozen=True)
class Migrated:
    """The result of migrating a state directory of an older version."""

    found: int
    backup: Path
    steps: tuple[str, ...]


def make_private(state: StateDir) -> None:
    """Migrate to version 1: only the owner can read keys and ledger, and logs have a folder."""
    state.root.chmod(0o700)
    state.logs.mkdir(mode=0o700, exist_ok=True)
    for log in state.root.glob("*.log"):
        log.rename(state.logs / log.name)
    for file in (state.key_file, state.service_key_file, *state.root.glob("ledger.db*")):
        if file.exists():
            file.chmod(0o600)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "keys and ledger are private, logs have their folder", make_private),
)


def bring_up_to_date(
    state: StateDir, migrations: Sequence[Migration] = MIGRATIONS
) -> Migrated | None:
    """Migrate a directory to the newest version; return None if it has it already, or is empty.

    The caller holds the instance lock. The version is written after each step, so an interrupted
    step is repeated at the next start. Raises `StateTooNew` and `StateDamaged`.
    """
    newest = migrations[-1].to if migrations else STATE_VERSION
    found = state_version(state)
    if found is None:
        write_version(state, newest)
        return None
    if found > newest:
        raise StateTooNew(state.root, found=found, known=newest)
    steps = [migration for migration in migrations if migration.to > found]
    if not steps:
        return None
    backup = back_up(state, found)
    for migration in steps:
        migration.apply(state)
        write_version(state, migration.to)
    return Migrated(found, backup, tuple(step.about for step in steps))


def state_version(state: StateDir) -> int | None:
    """Return the version of a state directory; None if it contains no state yet."""
    try:
        text = state.version_file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        names = {entry.name for entry in state.root.iterdir()} if state.root.is_dir() else set()
        return 0 if names.difference(NOT_YET_STATE) else None
    except UnicodeDecodeError as error:
        raise StateDamaged(state.version_file, "it is not a text file") from error
    if not text.isdecimal():
        raise StateDamaged(state.version_file, f"it has {text[:20]!r} instead of a number")
    return int(text)


def write_version(state: StateDir, version: int) -> None:
    """Replace the version file in one step."""
    write_atomic(state.version_file, f"{version}\n")


def back_up(state: StateDir, version: int) -> Path:
    """Copy all data that cannot be restored otherwise to `backups/`; a failed copy is removed."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    backups = state.root / "backups"
    backups.mkdir(mode=0o700, exist_ok=True)
    draft, target = backups / f".{moment}", backups / f"version-{version}-{moment}"
    try:
        shutil.copytree(
            state.root,
            draft,
            symlinks=True,
            ignore=partial(_omitted, state.root),
            copy_function=partial(_copy, state.root),
        )
    except shutil.Error as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise OSError(errno.EIO, str(error.args[0][0][2]), str(state.root)) from error
    except (OSError, StateDamaged):
        shutil.rmtree(draft, ignore_errors=True)
        raise
    draft.rename(target)
    return target


def _omitted(root: Path, folder: str, names: list[str]) -> set[str]:
    return shutil.ignore_patterns(*NOT_BACKED_UP)(folder, names) if Path(folder) == root else set()


def _copy(root: Path, source: str, target: str) -> str:
    """Copy one file; a database as a consistent snapshot, even if other processes use it."""
    if Path(source).parent != root or not source.endswith(".db"):
        return str(shutil.copy2(source, target))
    try:
        with (
            closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except sqlite3.DatabaseError as error:
        raise StateDamaged(Path(source), str(error)) from error
    Path(target).chmod(0o600)
    return target
