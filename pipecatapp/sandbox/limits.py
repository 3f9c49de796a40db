"""How much a program in the sandbox may use, and the word for each limit that ends it."""

from dataclasses import dataclass
from typing import Literal

KIB, MIB = 1 << 10, 1 << 20

Stopped = Literal["time", "cpu", "memory", "processes", "output", "disk", "cancelled"]
"""The limit that ended a program."""


@dataclass(frozen=True)
class Limits:
    """Limits of the program and its children together, except those described with "each"."""

    seconds: float = 60.0
    """By the wall clock."""
    cpu: int = 600
    """Seconds of processor time, each process."""
    memory: int = 1024 * MIB
    """Bytes of memory, including files in the temporary folders."""
    processes: int = 128
    """Processes and threads at the same time."""
    output: int = 64 * MIB
    """Bytes on standard output and standard error; the program is stopped beyond them."""
    kept: int = 64 * KIB
    """Bytes of each of the two streams that are stored: the first half from the beginning, the rest
    from the end.
    """
    file: int = 256 * MIB
    """Bytes of the largest file, each."""
    disk: int = 512 * MIB
    """Bytes by which the folder may grow."""
    files: int = 20_000
    """Files and folders by which the folder may grow."""
    scratch: int = 128 * MIB
    """Bytes in each of the temporary folders: /tmp, /dev/shm and the home."""
    depth: int = 100
    """Folders inside each other, below the folder."""
    opened: int = 512
    """Open files, each process."""
