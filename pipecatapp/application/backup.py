"""Backups: one file with all persistent data, and its restore to a state directory.

ArchiveError
├── NotAnArchive       it is not an archive of Hearth
├── ArchiveDamaged     its contents do not match its manifest
└── ArchiveTooNew      a newer Hearth wrote it

An archive is a tar file, compressed by gzip: `manifest.json`, then the files with their names
relative to the state directory. Databases are copied with SQLite's online backup, so the copy of a
running instance is consistent (https://www.sqlite.org/backup.html).
"""

import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pydantic import BaseModel, ValidationError

from hearth.files import move_atomic
from hearth.service.names import RESTORED
from hearth.service.state import STATE_VERSION, StateDir
from hearth.service.version import hearth_version
from pipecatapp.workflow.storage import APPLICATION_ID, MIGRATIONS, refuse_if_held

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
STAGED: Final = ".restore"
"""Where a restore waits for the next start."""

COMING: Final = ".restoring"
"""The same, once what it replaces is out of its way."""

KEYS: Final = ("key", "service_key")
STAYS: Final = (*KEYS, "version")
"""Files that an archive may lack; the existing ones are then kept."""

LEFT_OUT: Final = (
    *("models", "packages", "logs", "backups", "lock", "restored.json"),
    *("instance.json", "gateway-instances.json"),
    *(f"keys.db{RESTORED}", f"keys.db{RESTORED}.unusable"),
)
"""Models and packages can be fetched again; the rest is of this machine and this moment. Packages
hold links to this machine's Python besides, which an archive does not.
"""

CHUNK: Final = 1 << 20


class ArchiveError(Exception):
    """Choose another archive; the state is as it was."""


class NotAnArchive(ArchiveError):
    """Name a file that `hearth backup` wrote."""


class ArchiveDamaged(ArchiveError):
    """Take an older archive: the copy, or the disk it lay on, is broken."""


class ArchiveTooNew(ArchiveError):
    """Update Hearth first; older archives are brought up to date by themselves."""


class Manifest(BaseModel):
    """The contents of an archive. `files` is name -> sha256; `ledger` the version of its tables.

    `restore` is the name of one restore of it, and empty in the archive itself.
    """

    format: int
    id: str
    created: datetime
    hearth: str
    state: int | None
    ledger: int | None
    files: dict[str, str]
    restore: str = ""


def write_archive(state: StateDir, target: Path) -> Manifest:
    """Write an archive of a state directory that may be in use; mode 0600.

    Raises `OSError`, and `ArchiveDamaged` when a database of the state cannot be read.
    """
    with TemporaryDirectory(prefix=".backup-", dir=target.parent) as folder:
        copy = Path(folder) / "copy"
        copy.mkdir()
        for file in _kept(state.root):
            _copy(file, copy / file.relative_to(state.root))
        manifest = _manifest(copy)
        (copy / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
        draft = Path(folder) / "draft"
        with tarfile.open(draft, "w:gz") as tar:
            for name in (MANIFEST, *manifest.files):
                tar.add(copy / name, arcname=name)
        draft.chmod(0o600)
        move_atomic(draft, target)
    return manifest


def stage(state: StateDir, archive: Path, *, keys: bool, called: str = "") -> Manifest:
    """Verify an archive and unpack it into the state directory, for activation at the next start.

    Nothing else is changed; an earlier staged archive is replaced. Without `keys`, the keys of the
    state stay. `called` is the name of the file in messages. Raises `ArchiveError`.
    """
    draft = state.root / f"{STAGED}-{uuid.uuid4().hex}"
    draft.mkdir(mode=0o700, parents=True)
    try:
        manifest = _unpack(archive, draft, called or archive.name)
        _check(draft, manifest)
        when = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:4]}"
        manifest = manifest.model_copy(update={"restore": when})
        (draft / MANIFEST).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
        if not keys:
            for name in KEYS:
                (draft / name).unlink(missing_ok=True)
        staged = state.root / STAGED
        if staged.exists():
            shutil.rmtree(staged)
        draft.rename(staged)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return manifest


def apply_staged(state: StateDir) -> Manifest | None:
    """Replace the state by a staged archive; the old state is moved to `backups/`. Returns None
    without a staged archive.

    Called before any file of the state is opened. First the old files are moved away, then the new
    ones are moved in; after a power failure the next start completes either half. Issued keys are
    kept, because a key that was revoked since must not become valid again; the gateway adds keys
    that only the archive has. Raises `LedgerBusy` while a process holds the ledger.
    """
    staged, coming = state.root / STAGED, state.root / COMING
    if staged.is_dir():
        _refuse_if_in_use(state.ledger)
        _make_room(state, staged)
        staged.rename(coming)
    if not coming.is_dir():
        return None
    manifest = Manifest.model_validate_json((coming / MANIFEST).read_bytes())
    made = coming / state.key_store.name
    if made.exists() and state.key_store.exists():
        made.replace(f"{state.key_store}{RESTORED}")
    for path in list(coming.iterdir()):
        if path.name != MANIFEST:
            path.replace(state.root / path.name)
    (coming / MANIFEST).replace(state.root / "restored.json")
    coming.rmdir()
    return manifest


def _make_room(state: StateDir, staged: Path) -> None:
    manifest = Manifest.model_validate_json((staged / MANIFEST).read_bytes())
    backup = state.root / "backups" / f"before-restore-{manifest.restore or manifest.id}"
    backup.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in list(state.root.iterdir()):
        if path.name.startswith(state.key_store.name):
            continue
        if _is_state(path) and ((staged / path.name).exists() or path.name not in STAYS):
            path.rename(backup / path.name)


def restored(state: StateDir) -> Manifest | None:
    """The archive that this state was last restored from."""
    try:
        return Manifest.model_validate_json((state.root / "restored.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _is_state(path: Path) -> bool:
    return path.name not in LEFT_OUT and not path.name.startswith(".")


def _kept(root: Path) -> Iterator[Path]:
    """The files that belong to the state; a write-ahead log is part of its database's copy."""
    for top in sorted(root.iterdir()):
        if not _is_state(top):
            continue
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if file.is_file() and not file.is_symlink() and not _is_log(file):
                yield file


def _is_log(file: Path) -> bool:
    return file.name.endswith(("-wal", "-shm", "-journal"))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix != ".db":
        with suppress(FileNotFoundError):
            shutil.copy2(source, target)
        return
    try:
        with (
            closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
            if _is_ledger(copy):
                # The former holder of the lease does not hold the restored ledger.
                copy.execute("DELETE FROM lease")
                copy.commit()
    except sqlite3.DatabaseError as error:
        raise ArchiveDamaged(f"{source} cannot be read: {error}.") from error


def _manifest(copy: Path) -> Manifest:
    names = sorted(str(file.relative_to(copy)) for file in copy.rglob("*") if file.is_file())
    version = copy / "version"
    return Manifest(
        format=FORMAT,
        id=uuid.uuid4().hex[:12],
        created=datetime.now(UTC),
        hearth=hearth_version(),
        state=int(version.read_text(encoding="ascii")) if version.exists() else None,
        ledger=_ledger_version(copy / "ledger.db"),
        files={name: _digest(copy / name) for name in names},
    )


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract only files and folders, below `folder`, like tarfile's filter `data`.

    The filters exist since Python 3.11.4, and Debian 12 has 3.11.2.
    """
    for member in tar:
        target = (folder / member.name).resolve()
        if not target.is_relative_to(folder.resolve()):
            raise tarfile.ReadError(f"{member.name} lies outside")
        source = tar.extractfile(member) if member.isfile() else None
        if source is None and not member.isdir():
            raise tarfile.ReadError(f"{member.name} is neither a file nor a folder")
        if source is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with source, target.open("xb") as stream:
            shutil.copyfileobj(source, stream, CHUNK)
        target.chmod(member.mode & 0o755 | 0o600)
        os.utime(target, (member.mtime, member.mtime))


def _unpack(archive: Path, folder: Path, called: str) -> Manifest:
    try:
        with tarfile.open(archive, "r:gz") as tar:
            _extract(tar, folder)
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] > FORMAT:
            raise ArchiveTooNew(f"{called} was written by Hearth {manifest['hearth']}.")
        return Manifest.model_validate(manifest)
    except (EOFError, tarfile.ReadError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise NotAnArchive(f"{called} cannot be read: {error.strerror}.") from error
        raise ArchiveDamaged(f"{called} is damaged, or no archive: {error}.") from error
    except (tarfile.TarError, KeyError, TypeError, ValueError) as error:
        raise NotAnArchive(f"{called} is not a backup of Hearth.") from error


def _check(folder: Path, manifest: Manifest) -> None:
    """Check that all files exist, are complete, and have a supported version."""
    found = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()} - {MANIFEST}
    if found != set(manifest.files):
        raise ArchiveDamaged("It does not hold the files that its manifest names.")
    for name, digest in manifest.files.items():
        if _digest(folder / name) != digest:
            raise ArchiveDamaged(f"{name} in it is damaged: its checksum is wrong.")
    if (manifest.state or 0) > STATE_VERSION or (manifest.ledger or 0) > len(MIGRATIONS):
        raise ArchiveTooNew(f"It was written by Hearth {manifest.hearth}, which is newer.")
    for database in folder.glob("*.db"):
        with closing(sqlite3.connect(database)) as connection:
            try:
                [[verdict]] = connection.execute("PRAGMA integrity_check(1)")
            except sqlite3.DatabaseError as error:
                raise ArchiveDamaged(f"{database.name} in it is damaged: {error}.") from error
        if verdict != "ok":
            raise ArchiveDamaged(f"{database.name} in it is damaged: {verdict}.")


def _refuse_if_in_use(ledger: Path) -> None:
    if not ledger.exists():
        return
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            if _is_ledger(connection):
                refuse_if_held(connection, ledger)
        except sqlite3.DatabaseError as error:
            # A damaged ledger may be replaced by a restore; a locked one may be in use.
            if error.sqlite_errorcode not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise


def _is_ledger(connection: sqlite3.Connection) -> bool:
    [number] = connection.execute("PRAGMA application_id").fetchone()
    return bool(number == APPLICATION_ID)


def _ledger_version(ledger: Path) -> int | None:
    if not ledger.exists():
        return None
    with closing(sqlite3.connect(ledger)) as connection:
        [number] = connection.execute("PRAGMA user_version").fetchone()
    return int(number)


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while data := stream.read(CHUNK):
            digest.update(data)
    return digest.hexdigest()
