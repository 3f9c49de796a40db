"""Control groups of Linux, versions 1 and 2: find, set up, list, empty and remove them.

The only module that uses the kernel's files `cgroup.*` (cgroups(7)). Policy belongs to its users:
`hearth.lab.host_group` (the group of a host of a lab) and `pipecatapp.sandbox.program_group` (the
limits of a program).

Uses the standard library only: the guard of sandboxes loads it in a bare interpreter.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
PROCESSES = "cgroup.procs"
"""File that lists the processes of a group; a process id that is written to it joins the group."""
ATTEMPTS = 20
"""Tries to empty a group while its processes start others."""
PAUSE = 0.005
"""Seconds between two tries to kill all processes of a group."""


def hierarchies() -> list[Path]:
    """Return the mount points of control groups: one with version 2, several with version 1."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    folders = []
    for mount in mounts:
        fields, _, source = mount.partition(" - ")
        if source.split()[0] in {"cgroup", "cgroup2"}:
            folders.append(Path(fields.split()[4]))
    return [folder for folder in folders if folder.is_relative_to(ROOT)]


def own_groups(own: Path = OWN) -> dict[str, str]:
    """Return controller -> path of this process; version 2 has the name "": cgroups(7)."""
    groups: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in own.read_text(encoding="ascii").splitlines():
            _, names, path = line.split(":", 2)
            groups |= dict.fromkeys(names.split(","), path)
    return groups


def available(group: Path) -> set[str]:
    """Return the controllers of a group of version 2; empty for version 1."""
    return _words(group / "cgroup.controllers")


def enabled(group: Path) -> set[str]:
    """Return the controllers that limit the children of a group of version 2."""
    return _words(group / "cgroup.subtree_control")


def enable(group: Path, controllers: Iterable[str]) -> None:
    """Let controllers limit the children of a group of version 2. Raises `OSError`."""
    text = " ".join(f"+{name}" for name in sorted(controllers))
    (group / "cgroup.subtree_control").write_text(text, encoding="ascii")


def make_child(parent: Path, name: str) -> Path:
    """Create a group that accepts processes and may use every controller of its parent."""
    for controller in available(parent):
        with contextlib.suppress(OSError):
            enable(parent, [controller])
    group = parent / name
    group.mkdir(exist_ok=True)
    _inherit_cpus(group)
    return group


def make_room(group: Path, controllers: set[str]) -> bool:
    """Allow limited children in a group of ours: move its processes to a child.

    systemd requires this of a service with `Delegate=`, and it is necessary in a container whose
    processes are all in one group. Returns False, without a change, if the group is not ours.
    """
    if not controllers <= available(group):
        return False
    inner = group / "hearth-service"
    try:
        inner.mkdir(exist_ok=True)
        for _ in range(ATTEMPTS):
            for process in processes(group):
                with contextlib.suppress(ProcessLookupError):
                    (inner / PROCESSES).write_text(str(process), encoding="ascii")
            if _enabled_now(group, controllers):
                return True
    except OSError:
        with contextlib.suppress(OSError):
            inner.rmdir()
    return False


def processes(group: Path) -> set[int]:
    """Return the ids of the processes in a group, without those of its children."""
    try:
        return {int(pid) for pid in (group / PROCESSES).read_text(encoding="ascii").split()}
    except OSError:  # the group has been removed, or is threaded: its parent lists its processes
        return set()


def tree(group: Path) -> list[Path]:
    """Return the group and all groups below it, parents first; any may disappear at any time."""
    return [Path(path) for path, _, _ in os.walk(group)]


def all_processes(groups: Iterable[Path]) -> set[int]:
    """Return the ids of the processes in the groups and in all groups below them."""
    return {pid for group in groups for path in tree(group) for pid in processes(path)}


def kill(groups: Iterable[Path], seconds: float) -> set[int]:
    """Kill every process of the groups and remove the groups, which the kernel may refuse at first.

    Gives up after `seconds`. Returns the ids of the processes that still exist then.
    """
    left, deadline = list(groups), time.monotonic() + seconds
    while True:
        for pid in all_processes(left):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for group in left:
            remove(group)
        left = [group for group in left if group.exists()]
        if not left or time.monotonic() > deadline:
            return all_processes(left)
        time.sleep(PAUSE)


def remove(group: Path) -> None:
    """Remove a group and those below it, as far as they have no processes."""
    for path in reversed(tree(group)):
        with contextlib.suppress(OSError):
            path.rmdir()


def _enabled_now(group: Path, controllers: set[str]) -> bool:
    """Enable controllers; returns False if a process was started in the group meanwhile."""
    try:
        enable(group, controllers)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True


def _inherit_cpus(group: Path) -> None:
    """Copy the processors of the parent: without them, a group of version 1 accepts no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = group / name
        if file.exists() and not available(group):
            file.write_text((group.parent / name).read_text(encoding="ascii"), encoding="ascii")


def _words(file: Path) -> set[str]:
    try:
        return set(file.read_text(encoding="ascii").split())
    except OSError:
        return set()
