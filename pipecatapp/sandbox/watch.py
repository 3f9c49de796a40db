"""Looks after a running program from outside: memory, processes and disk, each summed up.

Memory is the cgroup's task where there is one. Elsewhere what the processes have mapped is summed
up every few milliseconds; the filter lets no memory exist that is not mapped, and RLIMIT_DATA holds
each process to a small multiple of the limit when this watch is late.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from pipecatapp.sandbox.cgroup import Cgroup
from pipecatapp.sandbox.limits import Limits, Stopped
from pipecatapp.sandbox.tree import Entry, TooLarge, walk

PAGE = os.sysconf("SC_PAGE_SIZE")
DISK_EVERY = 0.25
"""Seconds between two walks through the folder, if they are short."""
PATIENCE = 8
"""A look at something is followed by at least so many times its duration without one."""
HAS_CHILDREN = Path("/proc/self/task", str(os.getpid()), "children").exists()


@dataclass
class Folder:
    """What lies in the folder that a program writes in, and how much of it was there before."""

    path: Path
    limits: Limits
    known: Mapping[str, Entry] | None = None
    """What lay in it before, where that is not what lies there now."""

    def __post_init__(self) -> None:
        self.before = self._look() if self.known is None else dict(self.known)
        self._size = sum(entry.size for entry in self.before.values())
        self._room = _free(self.path)
        self._next, self._last = 0.0, 0.0

    def overfull(self) -> bool:
        """Whether it has grown too far; looks only as often as that is cheap."""
        now = time.monotonic()
        if now < self._next and not self._lost_room(now):
            return False
        full = self.overfull_now()
        self._last = time.monotonic() - now
        self._next = now + max(DISK_EVERY, PATIENCE * self._last)
        return full

    def overfull_now(self) -> bool:
        """Whether it has grown too far."""
        size, count, counted = 0, 0, set()
        try:
            for entry in walk(self.path, depth=self.limits.depth):
                count += 1
                if entry.state[2] not in counted:
                    counted.add(entry.state[2])
                    size += entry.size
                if count > len(self.before) + self.limits.files:
                    return True
                if size > self._size + self.limits.disk:
                    return True
        except TooLarge:
            return True
        return False

    def changes(self) -> dict[str, str]:
        """Path to `added`, `changed` or `removed`, for everything but folders.

        Nothing, where the program left more than can be looked at.
        """
        try:
            after = self._look()
        except TooLarge:
            return {}
        found = {
            path: "changed" if path in self.before else "added"
            for path, entry in after.items()
            if entry.state != getattr(self.before.get(path), "state", None)
        }
        found |= dict.fromkeys(self.before.keys() - after.keys(), "removed")
        entries = {**self.before, **after}
        return {path: found[path] for path in sorted(found) if not entries[path].is_folder}

    def _lost_room(self, now: float) -> bool:
        """Whether the disk lost so much room that the folder is looked at before its time."""
        return now > self._next - DISK_EVERY + self._last and (
            self._room - _free(self.path) > self.limits.disk
        )

    def _look(self) -> dict[str, Entry]:
        return {entry.path: entry for entry in walk(self.path, depth=self.limits.depth + 1)}


@dataclass
class Processes:
    """The processes of one sandbox, found from the first one of its namespace."""

    limits: Limits
    group: Cgroup | None

    def __post_init__(self) -> None:
        self.first: int | None = None
        self._next = 0.0

    def exceeded(self) -> Stopped | None:
        """The limit that they break together, if any."""
        if self.group is not None:
            if self.group.ran_out_of_memory():
                return "memory"
            if self.group.ran_out_of_processes():
                return "processes"
            if self.group.counts_memory:
                return None
        now = time.monotonic()
        if self.first is None or now < self._next:
            return None
        found = list(descendants(self.first))
        exceeded: Stopped | None = None
        if sum(threads for _, threads in found) > self.limits.processes:
            exceeded = "processes"
        elif self._memory([pid for pid, _ in found]) > self.limits.memory:
            exceeded = "memory"
        self._next = now + PATIENCE * (time.monotonic() - now)
        return exceeded

    def _memory(self, pids: list[int]) -> int:
        """What they have together; shared pages are told apart only when it could be too much."""
        most = sum(_resident(pid) for pid in pids)
        return most if most <= self.limits.memory else sum(_proportional(pid) for pid in pids)


def descendants(first: int) -> Iterator[tuple[int, int]]:
    """A process and all below it, each with the number of its threads."""
    if not HAS_CHILDREN:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(first).children(recursive=True):
                yield process.pid, process.num_threads()
        return
    waiting = [first]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            yield pid, len(tasks)
            for task in tasks:
                children = (task / "children").read_text(encoding="ascii")
                waiting += [int(child) for child in children.split()]


def _resident(pid: int) -> int:
    """Bytes of a process that are no part of a file: proc(5), statm; files on a tmpfs are."""
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return resident * PAGE


def _proportional(pid: int) -> int:
    """Bytes with each shared page divided among those who share it; without those of files."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return _resident(pid)
    own = [line for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))]
    return sum(int(line.split()[1]) * 1024 for line in own)


def _free(path: Path) -> int:
    try:
        facts = os.statvfs(path)
    except OSError:
        return 0
    return facts.f_bavail * facts.f_frsize
