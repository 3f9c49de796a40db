"""The control group of one program: it limits memory and processes if this process may create it.

Uses version 2 (systemd with `Delegate=`, or root) or version 1. Elsewhere memory is watched from
outside: see `pipecatapp.sandbox.watch`.
"""

import contextlib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal, Self

from hearth import cgroup
from pipecatapp.sandbox.leftovers import end_group, guard, new_name
from pipecatapp.sandbox.limits import Limits


@dataclass(frozen=True)
class ProgramGroup:
    """The group's folders: one of version 2, or one a controller of version 1."""

    folders: tuple[Path, ...]
    counts_memory: bool = True

    @classmethod
    def make(
        cls,
        limits: Limits,
        root: Path = cgroup.ROOT,
        own: Path = cgroup.OWN,
        *,
        name: str = "",
        memory: bool = True,
    ) -> Self | None:
        """A group with these limits; None where this process may make none that holds them.

        Without `memory` it holds the number of processes only.
        """
        name = name or new_name()
        limited = _settings(limits, memory=memory)
        for wanted, places in product(({**limited, **CPU}, limited), (_version_2, _version_1)):
            parents = places(root, own, set(wanted))
            made: list[Path] = []
            try:
                guard.watch(*parents)
                for parent in parents:
                    sweep(parent)
                    made.append(parent / name)
                    made[-1].mkdir()
                _set(made, wanted)
            except OSError:
                for folder in made:
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                continue
            if made:
                return cls(tuple(made), memory)
        return None

    @property
    def process_files(self) -> list[str]:
        """The files to which a process writes its id to join the group."""
        return [str(folder / cgroup.PROCESSES) for folder in self.folders]

    @property
    def counts_sockets(self) -> bool:
        """Whether its memory includes the buffers of all sockets: only in version 2."""
        return self.counts_memory and any(
            (folder / "memory.max").exists() for folder in self.folders
        )

    def resident(self) -> int:
        """Count the bytes that belong to no file on a disk, in a group of version 1."""
        return sum(
            _counter(folder / "memory.stat", name)
            for folder in self.folders
            for name in ("total_rss", "total_shmem")
        )

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group for its memory."""
        return any(
            _counter(folder / file, "oom_kill") > 0
            for folder in self.folders
            for file in ("memory.events", "memory.oom_control")
        )

    def ran_out_of_processes(self) -> bool:
        """Whether the kernel refused the group a process."""
        return any(_counter(folder / "pids.events", "max") > 0 for folder in self.folders)

    def remove(self) -> None:
        """Remove the group, and end what is left in it of a program that was killed early."""
        for folder in self.folders:
            end_group(folder)


Mode = Literal["cgroup", "watched"]


def mode() -> Mode:
    """State how memory is limited here: by the kernel, or by a watch that sums it up."""
    group = ProgramGroup.make(Limits())
    if group is None:
        return "watched"
    group.remove()
    return "cgroup"


def sweep(parent: Path) -> None:
    """End and remove the groups of services that were killed together with their guard."""
    for left in parent.glob("hearth-sandbox-*-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            end_group(left)


CPU = {"cpu": {"cpu.weight": "25", "cpu.shares": "256"}}
"""A quarter of what a group has by default, while others want the processor too. It is wanted and
not needed: a group without it is made where this controller is another's.
"""
OVERHEAD = 4
"""bubblewrap's own processes."""


def _settings(limits: Limits, *, memory: bool) -> dict[str, dict[str, str]]:
    """For each controller its files, in the order in which they are written."""
    settings = {"pids": {"pids.max": str(limits.processes + OVERHEAD)}}
    if memory:
        settings["memory"] = {
            "memory.max": str(limits.memory),
            "memory.swap.max": "0",
            "memory.oom.group": "1",
            "memory.limit_in_bytes": str(limits.memory),
            "memory.memsw.limit_in_bytes": str(limits.memory),
        }
    return settings


def _version_2(root: Path, own: Path, controllers: set[str]) -> list[Path]:
    """Return candidates below the own group, or next to it: a group with processes cannot have
    limited children."""
    path = cgroup.own_groups(own).get("")
    if path is None:
        return []
    group = root / path.lstrip("/")
    for parent in (group, group.parent):
        if parent.is_relative_to(root) and controllers <= cgroup.enabled(parent):
            return [parent]
    return [group] if cgroup.make_room(group, controllers) else []


def _version_1(root: Path, own: Path, controllers: set[str]) -> list[Path]:
    groups = cgroup.own_groups(own)
    if not controllers <= set(groups):
        return []
    return [root / name / groups[name].lstrip("/") for name in sorted(controllers)]


def _set(folders: list[Path], wanted: dict[str, dict[str, str]]) -> None:
    """Write the limits that the kernel supports; the main limit of each controller is required."""
    for settings in wanted.values():
        known = [
            (folder / name, value)
            for folder in folders
            for name, value in settings.items()
            if (folder / name).exists()
        ]
        if not LIMITING & {file.name for file, _ in known}:
            raise OSError("no limit can be set")
        for file, value in known:
            file.write_text(value, encoding="ascii")


LIMITING = {"memory.max", "memory.limit_in_bytes", "pids.max", "cpu.weight", "cpu.shares"}
"""Of each controller one of these files must be there, in one version or the other."""


def _counter(file: Path, name: str) -> int:
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.split()[:1] == [name])


if __name__ == "__main__":
    print(mode())  # noqa: T201 (what `hearth doctor` reads)
