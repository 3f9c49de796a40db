"""The parts of a host's disk: its changes, above layers that are never written.

upper    all that the host has changed, while it runs
lower…   golden layers, newest first, then the base tree
docker   /var/lib/docker, a separate folder, because such a disk cannot hold it
"""

import json
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hearth.lab.programs import remove, run


@dataclass(frozen=True)
class Disk:
    """The disk of one host, or of one host in a golden layer, below `folder`."""

    folder: Path

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    @property
    def docker(self) -> Path:
        return self.folder / "docker"

    @property
    def lower(self) -> list[Path]:
        """The layers below `upper`, top first."""
        return [Path(path) for path in json.loads(self._record.read_text(encoding="utf-8"))]

    @property
    def _record(self) -> Path:
        return self.folder / "lower.json"

    def make(self, lower: Sequence[Path]) -> None:
        """An empty disk above those."""
        for path in (self.upper, self.docker, self.folder / "root"):
            path.mkdir(parents=True, exist_ok=True)
        self._record.write_text(json.dumps([str(path) for path in lower]), encoding="utf-8")

    def make_from(self, golden: "Disk") -> None:
        """A disk that begins as that one was saved."""
        self.make([golden.upper, *golden.lower])
        _copy_docker(golden.docker, self.docker)

    def move_to(self, golden: "Disk") -> None:
        """Save what this one holds as that one, and go on above it."""
        golden.make(self.lower)
        for path in (golden.upper, golden.docker):
            path.rmdir()
        self.upper.rename(golden.upper)
        self.docker.rename(golden.docker)
        self.make_from(golden)

    def prepare(self) -> None:
        """Prepare the disk for mounting.

        A volatile mount leaves a mark that prevents the next one, because data may have been lost.
        As long as this machine keeps running, nothing is lost, so the mark is removed.
        """
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()

    def find(self, path: str) -> Path | None:
        """Where that file of the host lies, in the topmost layer that has it."""
        for layer in (self.upper, *self.lower):
            if (layer / path).is_file():
                return layer / path
        return None

    def write(self, path: str, content: str, *, mode: int = 0o644, folder: int = 0o755) -> None:
        """Put a file on the disk of a host that is off; new folders get the mode `folder`."""
        target = self.upper / path
        for parent in reversed(target.relative_to(self.upper).parents[:-1]):
            if not (self.upper / parent).is_dir():
                (self.upper / parent).mkdir()
                (self.upper / parent).chmod(folder)
        target.write_text(content, encoding="utf-8")
        target.chmod(mode)

    def individualise(self, name: str) -> None:
        """Give it what must differ from host to host: a name, an identity, an ssh host key."""
        self.write("etc/hostname", f"{name}\n")
        self.write("etc/machine-id", f"{uuid.uuid4().hex}\n", mode=0o444)
        self.write(
            "etc/hosts",
            f"127.0.0.1\tlocalhost\n127.0.1.1\t{name}\n::1\tlocalhost ip6-localhost ip6-loopback\n",
        )
        key = self.folder / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{name}", "-f", key)
        for made, suffix, mode in ((key, "", 0o600), (key.with_suffix(".pub"), ".pub", 0o644)):
            target = f"etc/ssh/ssh_host_ed25519_key{suffix}"
            self.write(target, made.read_text(encoding="ascii"), mode=mode)
            made.unlink()

    def changes(self) -> set[str]:
        """The path of every file that was written, and of everything that was removed."""
        found = (path for path in self.upper.rglob("*") if path.is_symlink() or not path.is_dir())
        return {str(path.relative_to(self.upper)) for path in found}


def _copy_docker(origin: Path, copy: Path) -> None:
    """Copy what Docker keeps; layers of images, the bulk of it, never change and are linked."""
    layers = origin / "overlay2"
    for path in origin.iterdir():
        if path != layers:
            run("cp", "--archive", "--reflink=auto", path, copy)
    if layers.is_dir():
        run("cp", "--archive", "--link", layers, copy)
        # Docker writes its notes about a layer into the same file again, so each host needs a copy.
        for note in (path for path in layers.glob("*/*") if path.is_file()):
            own = copy / "overlay2" / note.relative_to(layers)
            own.unlink()
            shutil.copy2(note, own)
        # A container writes into its own layer, which has a `-init` layer beside it.
        for prepared in layers.glob("*-init"):
            layer = prepared.name.removesuffix("-init")
            remove(copy / "overlay2" / layer)
            run("cp", "--archive", "--reflink=auto", layers / layer, copy / "overlay2")
