"""Layers of lab hosts that outlive a run, named by the hash of all that decides what they hold.

A recorded layer is a snapshot with a folder `record` beside its hosts: the secrets of their
cluster, what its maker wrote down, and a digest of all files, written last. A layer without that
digest was not finished, one that differs from it is damaged, one that is old has packages that the
mirrors have replaced; each is made again, and those that are built on it with it.

A process that uses a layer holds a shared lock on it until it ends, however it ends; to make or to
remove one takes the lock alone. So runs of several checkouts at a time share layers, wait for one
that another run is making, and never lose one that they use.
"""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO
from uuid import uuid4

from hearth.lab.disk import Disk
from hearth.lab.errors import LabError
from hearth.lab.folders import Folders
from hearth.lab.snapshots import Snapshots
from tests.cache import Part, key

PREFIX: Final = "recorded"
KEPT: Final = 2
"""Layers of a kind that stay: of two states of a checkout, or of two checkouts. All of one state
take 6 GB."""
DAYS: Final = 7
DAY: Final = 24 * 3600.0
SECRETS: Final = ("cluster.vault.yaml", "cluster.ca.pem", "password")
FAMILY: Final = "family"
"""File with the identity of the secrets: layers that are built on each other have the same."""

Notes = Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """A layer to begin with, and what was written down when it was made."""

    layer: str
    notes: Notes


class Records:
    """The recorded layers below the lab's folder, for one run of the tests.

    `secrets` is the folder of this run's secrets: it gets those of the layers that are used.
    """

    def __init__(self, folders: Folders, secrets: Path) -> None:
        self.folders = folders
        self.layers = Snapshots(folders)
        self._secrets = secrets
        self._locks = folders.root / "locks"
        self._held = ExitStack()

    def use(self, kind: str, parts: Iterable[Part], make: Callable[[str], Notes]) -> Record:
        """Return the layer of that kind and those inputs; `make(layer)` saves it if there is none.

        It stays until `release`. What `make` raises is passed on, and nothing is recorded.
        """
        layer = f"{PREFIX}-{kind}-{key(parts)}"
        with ExitStack() as stack:
            lock = stack.enter_context(self._lock(layer))
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not self.is_intact(layer):
                fcntl.flock(lock, fcntl.LOCK_EX)
                # Another run may have made it while this one waited.
                if not self.is_intact(layer):
                    self._discard(layer)
                    self._complete(layer, make(layer))
                fcntl.flock(lock, fcntl.LOCK_SH)
            self._take_secrets(layer)
            os.utime(lock.fileno())
            self._held.push(stack.pop_all())
        self._sweep()
        notes = self._record(layer, "notes.json").read_text(encoding="utf-8")
        return Record(layer, json.loads(notes))

    def release(self) -> None:
        """Let others remove the layers that this run has used."""
        self._held.close()

    def is_intact(self, layer: str) -> bool:
        """Whether the layer was finished, is not old, and has every file that it was made of."""
        if layer not in self.layers.names():
            return False
        mark = self._record(layer, "digest")
        with suppress(OSError):
            young = mark.stat().st_mtime > time.time() - DAYS * DAY
            return young and mark.read_text(encoding="ascii") == self._digest(layer)
        return False

    def _complete(self, layer: str, notes: Notes) -> None:
        family = self._secrets / FAMILY
        if not family.exists():
            family.write_text(uuid4().hex, encoding="ascii")
        folder = self._record(layer)
        folder.mkdir(mode=0o700)
        for name in (*SECRETS, FAMILY):
            if (self._secrets / name).exists():
                shutil.copy2(self._secrets / name, folder)
        self._record(layer, "notes.json").write_text(json.dumps(notes), encoding="utf-8")
        draft = self._record(layer, "draft")
        draft.write_text(self._digest(layer), encoding="ascii")
        draft.rename(self._record(layer, "digest"))

    def _take_secrets(self, layer: str) -> None:
        """Have this run know the secrets of the layer's hosts.

        Those that it made for bare hosts before it used a layer belong to no cluster.
        """
        kept, ours = self._record(layer), self._secrets / FAMILY
        if ours.exists() and ours.read_text("ascii") != (kept / FAMILY).read_text("ascii"):
            raise AssertionError(f"{layer} is not of the cluster whose secrets this run has.")
        for name in (*SECRETS, FAMILY):
            (self._secrets / name).unlink(missing_ok=True)
            if (kept / name).exists():
                shutil.copy2(kept / name, self._secrets)

    def _digest(self, layer: str) -> str:
        """Hash the path, kind, rights, size and time of every file, and what it is built on."""
        folder = self.folders.snapshot(layer)
        digest = hashlib.sha256()
        for root in sorted(path for path in folder.iterdir() if (path / "lower.json").exists()):
            digest.update("\n".join(sorted(_states(root))).encode(errors="surrogateescape"))
            if gone := [path for path in Disk(root).lower if not path.is_dir()]:
                digest.update(f"without {gone}".encode())
        return digest.hexdigest()

    def _discard(self, layer: str) -> None:
        """Remove a layer, and before it those that are built on it; `SnapshotInUse` by a lab."""
        with self.folders.locked():
            for other in self._built_on(layer):
                self.layers.discard(other)
            self.layers.discard(layer)

    def _built_on(self, layer: str) -> list[str]:
        """The layers that are built on that one, those above others first."""
        below, depths = self.folders.snapshot(layer), dict[str, int]()
        for record in self.folders.snapshots.glob("*/*/lower.json"):
            lower = Disk(record.parent).lower
            if any(path.is_relative_to(below) for path in lower):
                depths[record.parents[1].name] = len(lower)
        return sorted(depths, key=lambda name: depths[name], reverse=True)

    def _sweep(self) -> None:
        """Remove layers that have not been used for long, or of whose kind there are many."""
        found = [path.name for path in self.folders.snapshots.glob(f"{PREFIX}-*")]
        kinds = defaultdict[str, list[tuple[float, str]]](list)
        for layer in found:
            with self._lock(layer) as lock:
                kinds[layer.rpartition("-")[0]].append((os.fstat(lock.fileno()).st_mtime, layer))
        for used in kinds.values():
            for place, (last, layer) in enumerate(sorted(used, reverse=True)):
                if place >= KEPT or last < time.time() - DAYS * DAY:
                    self._remove(layer)

    def _remove(self, layer: str) -> None:
        """Remove a layer and those built on it, unless one of them is used."""
        with ExitStack() as stack, suppress(OSError, LabError):
            for name in (layer, *self._built_on(layer)):
                lock = stack.enter_context(self._lock(name))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._discard(layer)

    def _lock(self, layer: str) -> TextIO:
        self._locks.mkdir(parents=True, exist_ok=True)
        return (self._locks / layer).open("a", encoding="ascii")

    def _record(self, layer: str, name: str = "") -> Path:
        return self.folders.snapshot(layer) / "record" / name


def _states(folder: Path) -> Iterator[str]:
    """Everything below a folder: path, rights, and of a file its size and time of change.

    A directory's own size and time are left out: they tell of the file system, not of the host.
    """
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            found = os.lstat(f"{path}/{name}")
            plain = stat.S_ISREG(found.st_mode)
            size = (found.st_size, found.st_mtime_ns) if plain else ()
            yield f"{path}/{name} {found.st_mode} {size}"
