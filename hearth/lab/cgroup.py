"""The control group of one host, in every hierarchy of this machine.

With control groups version 1 it prevents concurrent hosts from using each other's groups. It also
lists all processes of a host, even those whose parents have ended.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
SYSTEMD = Path("/run/systemd/system")
"""sd_booted(3)"""


def systemd_runs() -> bool:
    """Return whether systemd manages the control groups and must create those of the hosts."""
    return SYSTEMD.is_dir()


def hierarchies() -> list[Path]:
    """Return the mount points of control groups: one with version 2, several with version 1."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    folders = []
    for mount in mounts:
        fields, _, source = mount.partition(" - ")
        if source.split()[0] in {"cgroup", "cgroup2"}:
            folders.append(Path(fields.split()[4]))
    return [folder for folder in folders if folder.is_relative_to(ROOT)]


@dataclass(frozen=True)
class Group:
    """The control group of one host of one lab."""

    lab: str
    node: str

    @property
    def unit(self) -> str:
        """The name of the systemd scope."""
        return f"hearth-{self.lab}-{self.node}"

    @property
    def path(self) -> Path:
        """The path of the group relative to each hierarchy."""
        if systemd_runs():
            return Path("system.slice") / f"{self.unit}.scope"
        return Path("hearth") / self.lab / self.node

    def start(self, command: list[str]) -> list[str]:
        """Return the command line that starts `command` in this group.

        Without systemd, it ends with the files to which the command must write its process id.
        """
        if systemd_runs():
            return [
                "systemd-run", "--scope", "--quiet", "--collect", "--slice=system.slice",
                f"--unit={self.unit}", "--property=Delegate=yes", "--", *command,
            ]  # fmt: skip
        return [*command, *(str(folder / "cgroup.procs") for folder in self._make())]

    def processes(self) -> set[int]:
        """Return the ids of all processes in the group."""
        below = (path for folder in self._folders() for path in _tree(folder))
        return {pid for path in below for pid in _listed(path / "cgroup.procs")}

    def kill(self, seconds: float = 10) -> None:
        """Kill every process as a power failure would, wait until all have ended, remove the group.

        Raises `TimeoutError` if processes still exist after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while processes := self.processes():
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.node} still has the processes {sorted(processes)}")
            time.sleep(0.01)
        self.remove()

    def remove(self) -> None:
        """Remove the empty group; systemd removes its scopes itself."""
        for folder in self._folders():
            above = [] if systemd_runs() else [folder.parent, folder.parent.parent]
            for path in [*reversed(_tree(folder)), *above]:
                with suppress(OSError):
                    path.rmdir()

    def _folders(self) -> list[Path]:
        return [h / self.path for h in hierarchies() if (h / self.path).is_dir()]

    def _make(self) -> Iterator[Path]:
        for hierarchy in hierarchies():
            folder = hierarchy
            for part in self.path.parts:
                _share_controllers(folder)
                folder /= part
                folder.mkdir(exist_ok=True)
                _inherit_cpus(folder)
            yield folder


def nodes_of(lab: str) -> set[str]:
    """Return the hosts of the lab that have a group, also those whose folders are gone."""
    pattern = str(Group(lab, "node*").path)
    groups = [folder for hierarchy in hierarchies() for folder in hierarchy.glob(pattern)]
    return {group.name.removesuffix(".scope").rpartition("-")[2] for group in groups}


def _share_controllers(folder: Path) -> None:
    """Enable all controllers for child groups, which version 2 does not do by default."""
    controllers = folder / "cgroup.controllers"
    if controllers.exists():
        for controller in controllers.read_text(encoding="ascii").split():
            with suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")


def _inherit_cpus(folder: Path) -> None:
    """Copy the processors of the parent: without them, a group of version 1 accepts no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if file.exists() and not (folder / "cgroup.controllers").exists():
            file.write_text((folder.parent / name).read_text(encoding="ascii"), encoding="ascii")


def _tree(folder: Path) -> list[Path]:
    """Return the folder and all folders below it, parents first; any may disappear at any time."""
    return [Path(path) for path, _, _ in os.walk(folder)]


def _listed(file: Path) -> list[int]:
    try:
        return [int(pid) for pid in file.read_text(encoding="ascii").split()]
    except OSError:  # the group has been removed, or is threaded: its parent lists its processes
        return []
