"""The test cache: what takes long to make, kept outside the checkout and shared by checkouts.

An entry is a folder `NAME-KEY` below `root()`. KEY is the SHA-256 of everything that decides what
the folder holds, so an entry is never updated: other inputs make another entry. Beside the folder
lie a manifest (every file with its size, mode and time of change) and a lock file. An entry without
a manifest was not finished; an entry that does not match its manifest is damaged; both are made
again. Only one process makes an entry, others wait for it.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hearth.settings import Settings

ROOT = Path(__file__).parents[1]
KEEP_DAYS = 14
"""Entries that no run has used for so long are removed."""
Part = str | bytes | Path
"""An input of an entry: text, bytes, or a file or folder by its content."""
CHANGING = "__pycache__"
"""Python adds bytecode to an entry when it runs from there."""


def root() -> Path:
    """Return the cache folder: `HEARTH_TEST_CACHE`, else `hearth-tests` in the user's caches.

    Without a home that can be written, the cache is in the checkout.
    """
    chosen = Settings.load().test_cache
    if chosen is not None:
        return chosen
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expandvars("$HOME/.cache")
    folder = Path(caches) / "hearth-tests"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder if os.access(folder, os.W_OK) else ROOT / ".cache" / "tests"


def key(parts: Iterable[Part]) -> str:
    """Return the hash of inputs: texts, bytes, and files or folders of the checkout by content."""
    digest = hashlib.sha256()
    for part in parts:
        for data in _bytes_of(part):
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:20]


def entry(name: str, parts: Iterable[Part], make: Callable[[Path], None]) -> Path:
    """Return the folder of an entry; `make(folder)` fills the empty folder if there is none.

    `make` may use the final path of the folder, so environments with absolute paths can be kept.
    What `make` raises is passed on, and nothing is kept.
    """
    folder = root() / f"{name}-{key(parts)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, fcntl.LOCK_EX):
        if not is_complete(folder):
            _discard(folder)
            folder.mkdir()
            make(folder)
            _write_manifest(folder)
        os.utime(_manifest(folder))
    _remove_unused(name, folder)
    return folder


def find(name: str, parts: Iterable[Part]) -> Path | None:
    """Return the folder of an entry if it is complete."""
    folder = root() / f"{name}-{key(parts)}"
    return folder if is_complete(folder) else None


def link(target: Path, folder: Path) -> Path:
    """Make `target`, a path in the checkout, a symbolic link to an entry; return it."""
    if target.is_symlink() and target.readlink() == folder:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.symlink_to(folder)
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    draft.replace(target)
    return target


def seed(name: str, parts: Iterable[Part], target: Path) -> bool:
    """Copy the last published snapshot to `target` if it is missing; return whether it was copied.

    Snapshots are for tools that check their own caches (mypy): the key names the tool's version and
    settings, and the content is whatever the last run left.
    """
    folder = root() / f"{name}-{key(parts)}"
    if target.exists() or not folder.is_dir():
        return False
    with _locked(folder, fcntl.LOCK_SH):
        if not is_complete(folder):
            return False
        shutil.copytree(folder, target)
    return True


def publish(name: str, parts: Iterable[Part], source: Path) -> None:
    """Keep a copy of `source` as the snapshot of that key, instead of the one before."""
    folder = root() / f"{name}-{key(parts)}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, fcntl.LOCK_EX):
        _discard(folder)
        shutil.copytree(source, folder)
        _write_manifest(folder)
    _remove_unused(name, folder)


def is_complete(folder: Path) -> bool:
    """Whether an entry was finished and every file is as it was then."""
    try:
        listed = json.loads(_manifest(folder).read_text(encoding="utf-8"))
        return all(_state(folder / path) == state for path, state in listed.items())
    except (OSError, ValueError):
        return False


def _bytes_of(part: Part) -> Iterator[bytes]:
    if isinstance(part, bytes):
        yield part
    elif isinstance(part, str):
        yield part.encode()
    elif part.is_dir():
        for path in sorted(part.rglob("*")):
            if path.is_file() and CHANGING not in path.parts:
                yield str(path.relative_to(part)).encode()
                yield path.read_bytes()
    else:
        yield part.read_bytes()


def _manifest(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.manifest")


def _write_manifest(folder: Path) -> None:
    listed = {
        str(path.relative_to(folder)): _state(path)
        for path in folder.rglob("*")
        if CHANGING not in path.parts and (path.is_symlink() or not path.is_dir())
    }
    draft = folder.with_name(f"{folder.name}.draft")
    draft.write_text(json.dumps(listed), encoding="utf-8")
    draft.rename(_manifest(folder))


def _state(path: Path) -> list[int]:
    """Return size, mode and time of change, without following a link."""
    found = path.lstat()
    changed = 0 if stat.S_ISLNK(found.st_mode) else found.st_mtime_ns
    return [found.st_size, found.st_mode, changed]


def _discard(folder: Path) -> None:
    """Remove an entry; processes that run from it keep the files that they have open."""
    _manifest(folder).unlink(missing_ok=True)
    if folder.exists():
        removed = folder.with_name(f"{folder.name}.removed")
        shutil.rmtree(removed, ignore_errors=True)
        folder.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path, kind: int, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of an entry. Raises `BlockingIOError` if `wait` is false and it is held."""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, kind if wait else kind | fcntl.LOCK_NB)
        yield


def _remove_unused(name: str, used: Path) -> None:
    """Remove entries of a name that no run has used for `KEEP_DAYS`."""
    oldest = time.time() - KEEP_DAYS * 24 * 3600
    for manifest in used.parent.glob(f"{name}-*.manifest"):
        folder = manifest.with_suffix("")
        with contextlib.suppress(OSError):
            if folder != used and manifest.stat().st_mtime < oldest:
                with _locked(folder, fcntl.LOCK_EX, wait=False):
                    _discard(folder)
