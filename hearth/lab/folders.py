"""The folders of the labs, all below one root."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hearth.lab.errors import InvalidName

NAME = re.compile(r"(?!.*-node[0-9]*$)[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Folders:
    """Paths below `root`, the setting `HEARTH_LAB_DIR`."""

    root: Path

    @property
    def bases(self) -> Path:
        """Base trees, each named after the digest of its recipe."""
        return self.root / "base"

    @property
    def packages(self) -> Path:
        """The state and cache of the proxy that gives hosts Debian packages."""
        return self.root / "packages"

    @property
    def snapshots(self) -> Path:
        """Snapshots, which `down` does not remove; the name on the disk is older than the term."""
        return self.root / "layers"

    @property
    def labs(self) -> Path:
        """One folder for each lab that is up."""
        return self.root / "labs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock that a process needs to create or remove labs and snapshots."""
        self.labs.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def lab(self, name: str) -> Path:
        """Return the folder of a lab; raises `InvalidName`."""
        return self.labs / checked_name(name)

    def snapshot(self, name: str) -> Path:
        """Return the folder of a snapshot; raises `InvalidName`."""
        return self.snapshots / checked_name(name)


def checked_name(name: str) -> str:
    """Return the name if it can be part of the names of namespaces, units and folders.

    Raises `InvalidName` otherwise.
    """
    if not NAME.fullmatch(name) or len(name) > 40:
        raise InvalidName(
            f"{name!r} is not a valid name: use at most 40 lower case letters, digits and single "
            "hyphens, begin with a letter, and do not end with the name of a host, as in x-node1."
        )
    return name
