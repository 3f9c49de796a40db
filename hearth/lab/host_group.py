"""The control group of one host, in every hierarchy of this machine.

With control groups version 1 it prevents concurrent hosts from using each other's groups. It also
lists all processes of a host, even those whose parents have ended.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hearth import cgroup

SYSTEMD = Path("/run/systemd/system")
"""sd_booted(3)"""


def systemd_runs() -> bool:
    """Return whether systemd manages the control groups and must create those of the hosts."""
    return SYSTEMD.is_dir()


@dataclass(frozen=True)
class HostGroup:
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
        return [*command, *(str(folder / cgroup.PROCESSES) for folder in self._make())]

    def processes(self) -> set[int]:
        """Return the ids of all processes in the group."""
        return cgroup.all_processes(self._folders())

    def kill(self, seconds: float = 10) -> None:
        """Kill every process as a power failure would, wait until all have ended, remove the group.

        Raises `TimeoutError` if processes still exist after `seconds`.
        """
        folders = self._folders()
        if processes := cgroup.kill(folders, seconds):
            raise TimeoutError(f"{self.node} still has the processes {sorted(processes)}")
        if not systemd_runs():
            _remove_parents(folders)

    def remove(self) -> None:
        """Remove the empty group; systemd removes its scopes itself."""
        folders = self._folders()
        for folder in folders:
            cgroup.remove(folder)
        if not systemd_runs():
            _remove_parents(folders)

    def _folders(self) -> list[Path]:
        paths = (hierarchy / self.path for hierarchy in cgroup.hierarchies())
        return [path for path in paths if path.is_dir()]

    def _make(self) -> Iterator[Path]:
        for hierarchy in cgroup.hierarchies():
            folder = hierarchy
            for part in self.path.parts:
                folder = cgroup.make_child(folder, part)
            yield folder


def nodes_of(lab: str) -> set[str]:
    """Return the hosts of the lab that have a group, also those whose folders are gone."""
    pattern = str(HostGroup(lab, "node*").path)
    groups = [group for hierarchy in cgroup.hierarchies() for group in hierarchy.glob(pattern)]
    return {group.name.removesuffix(".scope").rpartition("-")[2] for group in groups}


def _remove_parents(groups: list[Path]) -> None:
    """Remove the groups of the lab and of all labs, unless they contain other hosts."""
    for group in groups:
        for folder in (group.parent, group.parent.parent):
            with suppress(OSError):
                folder.rmdir()
