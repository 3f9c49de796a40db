"""Where the lab keeps what: everything lies below one folder."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hearth.lab.errors import NameUnfit

NAME = re.compile(r"(?!.*-node[0-9]*$)[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Folders:
    """`root` is the setting `HEARTH_LAB_DIR`."""

    root: Path

    @property
    def bases(self) -> Path:
        """Base trees, each named by its recipe."""
        return self.root / "base"

    @property
    def packages(self) -> Path:
        """The proxy through which hosts get Debian packages, and what it keeps."""
        return self.root / "packages"

    @property
    def layers(self) -> Path:
        """Golden layers, which `down` leaves."""
        return self.root / "layers"

    @property
    def labs(self) -> Path:
        """One folder per lab that is up."""
        return self.root / "labs"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Make or remove labs and layers while no other process does."""
        self.labs.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def lab(self, name: str) -> Path:
        return self.labs / fitting(name)

    def layer(self, name: str) -> Path:
        return self.layers / fitting(name)


def fitting(name: str) -> str:
    """The name, if namespaces, units and folders can be named with it."""
    if not NAME.fullmatch(name) or len(name) > 40:
        raise NameUnfit(
            f"{name!r} cannot be a name here: use small letters, digits and single hyphens, "
            "begin with a letter, and do not end as a host's name does."
        )
    return name
