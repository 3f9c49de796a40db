"""Snapshots: saved disks of the hosts of a lab, from which hosts of any lab can start."""

from pathlib import Path

from hearth.lab.disk import Disk
from hearth.lab.errors import SnapshotExists, SnapshotInUse, SnapshotMissing
from hearth.lab.folders import Folders
from hearth.lab.node import Node
from hearth.lab.programs import remove, run

COMPLETE = "complete"
"""Name of the empty file that marks a snapshot as complete."""


class Snapshots:
    """The snapshots below one folder; incomplete ones are ignored."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def names(self) -> list[str]:
        """Return the names of the complete snapshots, sorted."""
        if not self.folders.snapshots.is_dir():
            return []
        return sorted(path.parent.name for path in self.folders.snapshots.glob(f"*/{COMPLETE}"))

    def disk(self, name: str, node: str) -> Disk | None:
        """Return the disk of a host in a snapshot, or None if it was saved without that host.

        Raises `SnapshotMissing` if there is no such snapshot.
        """
        disk = Disk(self._complete(name) / node)
        return disk if disk.upper.is_dir() else None

    def prepare(self, name: str) -> None:
        """Remove an incomplete snapshot of that name.

        Raises `SnapshotExists` if there is a complete one.
        """
        if name in self.names():
            raise SnapshotExists(name)
        self.discard(name)

    def save(self, name: str, nodes: list[Node]) -> None:
        """Save the disks of hosts that are off; the hosts continue on empty layers above them."""
        folder = self.folders.snapshot(name)
        for node in nodes:
            (folder / node.name).mkdir(parents=True)
            node.disk.move_to(Disk(folder / node.name))
        # A snapshot outlives a crash of this machine, so it must have reached the medium.
        run("sync", "--file-system", folder)
        (folder / COMPLETE).touch()

    def drop(self, name: str) -> None:
        """Remove a complete snapshot.

        Raises `SnapshotMissing` if there is none, and `SnapshotInUse` if a lab or another snapshot
        is based on it.
        """
        self._complete(name)
        self.discard(name)

    def discard(self, name: str) -> None:
        """Remove a snapshot if there is one, complete or not.

        Raises `SnapshotInUse` if a lab or another snapshot is based on it.
        """
        folder = self.folders.snapshot(name)
        for user, lower in self._references():
            if lower.is_relative_to(folder) and not user.is_relative_to(folder):
                raise SnapshotInUse(name, user)
        remove(folder)

    def foundations(self) -> set[Path]:
        """Return the base trees that the disks of labs and snapshots use."""
        return {path for _, path in self._references() if path.parent == self.folders.bases}

    def _references(self) -> list[tuple[Path, Path]]:
        """Return (folder of a disk, layer below it) for every disk of every lab and snapshot."""
        roots = [*self.folders.snapshots.glob("*/*"), *self.folders.labs.glob("*/nodes/*")]
        disks = [Disk(root) for root in roots if (root / "lower.json").exists()]
        return [(disk.folder, lower) for disk in disks for lower in disk.lower]

    def _complete(self, name: str) -> Path:
        if name not in self.names():
            raise SnapshotMissing(name, known=self.names())
        return self.folders.snapshot(name)
