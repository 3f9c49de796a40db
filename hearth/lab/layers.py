"""Golden layers: what hosts have become, kept to begin with, of any lab, as often as wanted."""

from pathlib import Path

from hearth.lab.disk import Disk
from hearth.lab.errors import LayerExists, LayerInUse, LayerMissing
from hearth.lab.folders import Folders
from hearth.lab.node import Node
from hearth.lab.programs import remove, run

COMPLETE = "complete"


class Layers:
    """The layers below one folder; one that was not completed does not count."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def names(self) -> list[str]:
        if not self.folders.layers.is_dir():
            return []
        return sorted(path.parent.name for path in self.folders.layers.glob(f"*/{COMPLETE}"))

    def disk(self, layer: str, node: str) -> Disk | None:
        """What that host had become; nothing when the layer was saved without it."""
        disk = Disk(self._known(layer) / node)
        return disk if disk.upper.is_dir() else None

    def make_room(self, layer: str) -> None:
        """Have nothing stand where that layer will; `LayerExists` when it was saved before."""
        if layer in self.names():
            raise LayerExists(layer)
        self.discard(layer)

    def save(self, layer: str, nodes: list[Node]) -> None:
        """Keep what these hosts, which are off, have become; they go on above it."""
        folder = self.folders.layer(layer)
        for node in nodes:
            (folder / node.name).mkdir(parents=True)
            node.disk.move_to(Disk(folder / node.name))
        # A layer outlives a crash of this machine, so it must have reached the medium.
        run("sync", "--file-system", folder)
        (folder / COMPLETE).touch()

    def drop(self, layer: str) -> None:
        """Remove a layer; `LayerInUse` while a lab, or another layer, is built on it."""
        self._known(layer)
        self.discard(layer)

    def discard(self, layer: str) -> None:
        """Remove what there is of a layer, also one that was not completed; else as `drop`."""
        folder = self.folders.layer(layer)
        for user, below in self._used():
            if below.is_relative_to(folder) and not user.is_relative_to(folder):
                raise LayerInUse(layer, user)
        remove(folder)

    def foundations(self) -> set[Path]:
        """The base trees that a lab or a layer is built on."""
        return {path for _, path in self._used() if path.parent == self.folders.bases}

    def _used(self) -> list[tuple[Path, Path]]:
        """Who is built on what: every disk of every lab and layer, with each path below it."""
        roots = [*self.folders.layers.glob("*/*"), *self.folders.labs.glob("*/nodes/*")]
        disks = [Disk(root) for root in roots if (root / "lower.json").exists()]
        return [(disk.folder, below) for disk in disks for below in disk.lower]

    def _known(self, layer: str) -> Path:
        if layer not in self.names():
            raise LayerMissing(layer, known=self.names())
        return self.folders.layer(layer)
