"""The processes of one host: a control group of its own in every hierarchy that there is.

That keeps hosts that run side by side out of each other's groups where control groups are of
version 1, and it names every process of a host, whoever started it and whatever has died.
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
    """Control groups belong to systemd where it runs, so it must make ours."""
    return SYSTEMD.is_dir()


def hierarchies() -> list[Path]:
    """Where control groups are mounted: one folder with version 2, many with version 1."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    found = []
    for mount in mounts:
        fields, _, source = mount.partition(" - ")
        if source.split()[0] in {"cgroup", "cgroup2"}:
            found.append(Path(fields.split()[4]))
    return [folder for folder in found if folder.is_relative_to(ROOT)]


@dataclass(frozen=True)
class Group:
    """The control group of one host of one lab."""

    lab: str
    node: str

    @property
    def unit(self) -> str:
        """The scope that systemd makes."""
        return f"hearth-{self.lab}-{self.node}"

    @property
    def path(self) -> Path:
        """Below each hierarchy."""
        if systemd_runs():
            return Path("system.slice") / f"{self.unit}.scope"
        return Path("hearth") / self.lab / self.node

    def start(self, command: list[str]) -> list[str]:
        """The command line that starts `command` in this group.

        Its arguments are followed by the files into which it has to write its process id.
        """
        if systemd_runs():
            return [
                "systemd-run", "--scope", "--quiet", "--collect", "--slice=system.slice",
                f"--unit={self.unit}", "--property=Delegate=yes", "--", *command,
            ]  # fmt: skip
        return [*command, *(str(folder / "cgroup.procs") for folder in self._make())]

    def processes(self) -> set[int]:
        """Everything that runs in it."""
        below = (path for folder in self._folders() for path in _tree(folder))
        return {pid for path in below for pid in _listed(path / "cgroup.procs")}

    def kill(self, seconds: float = 10) -> None:
        """End every process at once, as a pulled plug does; wait until they are gone.

        The group is removed, too. Raises `TimeoutError` when one cannot be ended.
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
        """Remove the empty group; systemd does so itself with those it made."""
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
    """The hosts of the lab that have a group, whether anything is left of them or not."""
    pattern = str(Group(lab, "node*").path)
    groups = [folder for hierarchy in hierarchies() for folder in hierarchy.glob(pattern)]
    return {group.name.removesuffix(".scope").rpartition("-")[2] for group in groups}


def _share_controllers(folder: Path) -> None:
    """Version 2 hands controllers down only where it is told to."""
    controllers = folder / "cgroup.controllers"
    if controllers.exists():
        for controller in controllers.read_text(encoding="ascii").split():
            with suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")


def _inherit_cpus(folder: Path) -> None:
    """Version 1 makes groups without processors, which take no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if file.exists() and not (folder / "cgroup.controllers").exists():
            file.write_text((folder.parent / name).read_text(encoding="ascii"), encoding="ascii")


def _tree(folder: Path) -> list[Path]:
    """The folder and those below it, from above; they may go away at any time."""
    return [Path(path) for path, _, _ in os.walk(folder)]


def _listed(file: Path) -> list[int]:
    try:
        return [int(pid) for pid in file.read_text(encoding="ascii").split()]
    except OSError:  # the group went away, or is a threaded one, whose parent lists its processes
        return []
