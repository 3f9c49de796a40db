"""Monitors a running program from outside: its total memory, processes and disk usage.

A cgroup limits the memory if there is one, except for sockets with version 1, which counts the
buffers of some kinds only. Otherwise the mapped memory of the processes, their page tables, files
in the temporary folders and the maximum of their socket buffers are summed up every few
milliseconds; the filter permits no other memory, and RLIMIT_DATA restricts each process to a small
multiple of the limit in case this monitor is late.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from pipecatapp.sandbox.bubblewrap import HOME
from pipecatapp.sandbox.limits import Limits, Stopped
from pipecatapp.sandbox.program_group import ProgramGroup
from pipecatapp.sandbox.tree import Entry, TooLarge, walk

PAGE = os.sysconf("SC_PAGE_SIZE")
DISK_EVERY = 0.25
"""Seconds between two walks through the folder, if they are short."""
PATIENCE = 8
"""After each check, the monitor pauses for at least so many times its duration."""
CORE = Path("/proc/sys/net/core")
LARGEST_DEFAULT = 212_992
"""Bytes of a socket's buffer if the kernel does not report them; Linux's default."""
LARGEST_TCP = 10 << 20
"""Bytes of a TCP connection's two buffers at most: tcp(7), tcp_rmem and tcp_wmem."""
PER_FILE = 2048
"""Bytes that the kernel keeps of a file on a tmpfs, with its name, at most."""
TEMPORARY = ("/tmp", "/dev/shm", HOME)
FEW = 8
"""Number of processes that are tried, since one may end while it is read."""
HAS_CHILDREN = Path("/proc/self/task", str(os.getpid()), "children").exists()


@dataclass
class Folder:
    """The folder in which a program writes, and its content before the start."""

    path: Path
    limits: Limits
    known: Mapping[str, Entry] | None = None
    """Its content before, if that differs from the present content."""

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
        """Return path -> `added`, `changed` or `removed`, for everything except folders.

        Empty if the program left more than can be compared.
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
        """Return whether the free disk space fell so much that the folder is checked before its
        time."""
        return now > self._next - DISK_EVERY + self._last and (
            self._room - _free(self.path) > self.limits.disk
        )

    def _look(self) -> dict[str, Entry]:
        return {entry.path: entry for entry in walk(self.path, depth=self.limits.depth + 1)}


@dataclass
class Processes:
    """The processes of one sandbox, found from the first one of its namespace."""

    limits: Limits
    group: ProgramGroup | None

    def __post_init__(self) -> None:
        self.first: int | None = None
        self._next = 0.0
        self._sockets = Sockets()
        self._counts_sockets = self.group is not None and self.group.counts_sockets

    def exceeded(self) -> Stopped | None:
        """The limit that they break together, if any."""
        if self.group is not None:
            if self.group.ran_out_of_memory():
                return "memory"
            if self.group.ran_out_of_processes():
                return "processes"
        now = time.monotonic()
        if self.first is None or now < self._next or self._counts_sockets:
            return None
        exceeded = self._summed(self.first)
        self._next = now + PATIENCE * (time.monotonic() - now)
        return exceeded

    def _summed(self, first: int) -> Stopped | None:
        """The limit that they break by the sum of what the kernel limits for each, if any."""
        if self.group is not None and self.group.counts_memory:
            most = self._sockets.most([first])
            return "memory" if self.group.resident() + most > self.limits.memory else None
        found = list(descendants(first))
        if sum(threads for _, threads in found) > self.limits.processes:
            return "processes"
        if self._memory([pid for pid, _ in found]) > self.limits.memory:
            return "memory"
        return None

    def _memory(self, pids: list[int]) -> int:
        """Return the memory of the processes together, in bytes.

        Shared pages are counted once only if the sum exceeds the limit: that takes longer."""
        kernel = self._sockets.most(pids) + _temporary(pids)
        most = kernel + sum(_resident(pid) for pid in pids)
        if most <= self.limits.memory:
            return most
        return kernel + sum(_proportional(pid) for pid in pids)


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


class Sockets:
    """The memory of the sockets of one network namespace, at most.

    The filter keeps each buffer at its default size. TCP sizes its buffers itself, and the kernel
    counts them for all namespaces together: what was there before is left out.
    """

    def __init__(self) -> None:
        self._size = max(_number(CORE / "wmem_default"), _number(CORE / "rmem_default"))
        self._before = _sockstat("self").get("TCP", {}).get("mem", 0)

    def most(self, pids: list[int]) -> int:
        """Bytes that the sockets of these processes can hold."""
        found = next((facts for pid in pids[:FEW] if (facts := _sockstat(pid))), {})
        tcp = found.get("TCP", {})
        connected = tcp.get("alloc", 0) + found.get("TCP6", {}).get("inuse", 0)
        grown = max(0, tcp.get("mem", 0) - self._before) * PAGE
        others = found.get("sockets", {}).get("used", 0)
        return others * self._size + min(grown, connected * LARGEST_TCP)


def _sockstat(pid: int | str) -> dict[str, dict[str, int]]:
    """Counts by protocol: proc(5), net/sockstat and net/sockstat6."""
    found = {}
    for file in ("sockstat", "sockstat6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{file}").read_text(encoding="ascii").splitlines():
                name, *words = line.replace(":", "").split()
                found[name] = {
                    key: int(value) for key, value in zip(words[::2], words[1::2], strict=True)
                }
    return found


def _number(file: Path) -> int:
    try:
        return int(file.read_text(encoding="ascii"))
    except OSError:
        return LARGEST_DEFAULT


def _temporary(pids: list[int]) -> int:
    """Bytes in the temporary folders, with what the kernel keeps of each file."""
    for pid in pids[-FEW:]:
        with contextlib.suppress(OSError):
            facts = [os.statvfs(f"/proc/{pid}/root{place}") for place in TEMPORARY]
            return sum(
                (one.f_blocks - one.f_bfree) * one.f_frsize + (one.f_files - one.f_ffree) * PER_FILE
                for one in facts
            )
    return 0


def _resident(pid: int) -> int:
    """Return the bytes of a process without mapped files, with page tables: proc(5), status."""
    found = _kilobytes(pid, "status", ("RssAnon:", "RssShmem:", "VmPTE:"))
    return sum(found.values())


def _proportional(pid: int) -> int:
    """The same with each shared page divided among those that share it.

    Shared memory is on the temporary folders, which are counted by themselves.
    """
    own = _kilobytes(pid, "smaps_rollup", ("Pss_Anon:",))
    tables = _kilobytes(pid, "status", ("VmPTE:",))
    return sum(own.values()) + sum(tables.values()) if own else _resident(pid)


def _kilobytes(pid: int, file: str, names: tuple[str, ...]) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    words = (line.split() for line in lines.splitlines() if line.startswith(names))
    return {name: int(size) * 1024 for name, size, *_ in words}


def _free(path: Path) -> int:
    try:
        facts = os.statvfs(path)
    except OSError:
        return 0
    return facts.f_bavail * facts.f_frsize
