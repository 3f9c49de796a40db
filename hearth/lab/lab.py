"""A lab: hosts, their network and a namespace in which commands reach them."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import BaseModel

from hearth.lab import packages, programs, systems
from hearth.lab.errors import InvalidName, NoLab, NoNode, ProgramFailed
from hearth.lab.folders import Folders
from hearth.lab.host_group import nodes_of
from hearth.lab.network import (
    MAX_NODES,
    Network,
    address_of,
    checked_address,
    entered,
    inode,
)
from hearth.lab.node import Node, NodeStatus
from hearth.lab.programs import NAMESPACES, inside, remove, run
from hearth.lab.snapshots import Snapshots
from hearth.settings import Settings

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LabStatus(BaseModel):
    """The state of a lab, as `hearth lab status` shows it."""

    name: str
    up: bool
    folder: Path
    nodes: list[NodeStatus]
    layers: list[str]
    """The snapshots of all labs; the field is older than the term."""


def report_nothing(text: str) -> None:
    """Ignore the progress of a lab."""


class Lab:
    """A lab, which need not be up. Several can be up at the same time.

    They share the base tree, the snapshots and the package proxy.

    Args:
        name: Name of the lab; by default that of the setting `HEARTH_LAB_NAME`.
        root: Folder of all labs; by default that of the setting `HEARTH_LAB_DIR`.
        report: Called with a line before work that takes long.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        root: Path | None = None,
        report: Callable[[str], None] = report_nothing,
    ) -> None:
        settings = Settings.load()
        self.name = settings.lab_name if name is None else name
        self.folders = Folders(root or settings.lab_dir)
        self.folder = self.folders.lab(self.name)
        self.network = Network(self.name)
        self.snapshots = Snapshots(self.folders)
        self.key = self.folder / "key"
        self._ready = self.folder / "ready"
        self._report = report

    def up(
        self,
        nodes: int,
        *,
        snapshot: str | None = None,
        system: str = systems.DEFAULT,
        systems_of: Mapping[str, str] | None = None,
    ) -> list[Node]:
        """Start the hosts 1 to `nodes`, wait until they answer, and return them.

        Running hosts are not changed, and hosts that are off are switched on. First, leftovers of
        a crash of this machine are removed.

        Args:
            nodes: How many hosts, from 1 to `MAX_NODES`.
            snapshot: Snapshot that a host without a disk starts from, if it is in it.
            system: Operating system of other hosts without a disk, such as `debian-13`.
            systems_of: Name of a host -> its system, where it differs from `system`.

        Raises `InvalidName` for an invalid number, `SystemUnknown`, `SnapshotMissing` and
        `BootFailed`.
        """
        programs.check()
        if not 1 <= nodes <= MAX_NODES:
            raise InvalidName(f"A lab has between 1 and {MAX_NODES} hosts, not {nodes}.")
        with self.folders.locked():
            if not self.is_up():
                self._clear()
            programs.raise_inotify_limit()
            names = [f"node{number}" for number in range(1, nodes + 1)]
            chosen = {name: (systems_of or {}).get(name, system) for name in names}
            trees = {one: self._tree(systems.named(one)) for one in dict.fromkeys(chosen.values())}
            self._prepare()
            hosts = [self._host(name, trees[chosen[name]], snapshot) for name in names]
            self._write_known_hosts()
            for host in hosts:
                host.start()
        for host in hosts:
            host.wait()
        return hosts

    def down(self) -> bool:
        """Remove the lab completely, except snapshots; return whether there was anything."""
        programs.check()
        with self.folders.locked():
            existed = self.folder.exists() or bool(self.network.namespaces())
            self._clear()
            if not any(self.folders.labs.iterdir()):
                packages.Proxy(self.folders).stop()
        return existed

    def save(self, snapshot: str) -> None:
        """Save the disks of all hosts as a snapshot; running hosts are restarted.

        Raises `InvalidName`, `NoLab` and `SnapshotExists`.
        """
        programs.check()
        self.folders.snapshot(snapshot)
        nodes = self.nodes()
        running = [node for node in nodes if node.is_powered()]
        with self.folders.locked():
            self.snapshots.prepare(snapshot)
            for node in running:
                node.stop()
            self.snapshots.save(snapshot, nodes)
            for node in running:
                node.start()
        for node in running:
            node.wait()

    def drop(self, snapshot: str) -> None:
        """Remove a snapshot; raises `SnapshotMissing` and `SnapshotInUse`."""
        programs.check()
        with self.folders.locked():
            self.snapshots.drop(snapshot)

    def move(self, node: str, address: str) -> None:
        """Change the address of a host, as a router can do.

        Raises `InvalidName` if the address is invalid or used by another host.
        """
        with self.folders.locked():
            host, new = self.node(node), checked_address(address)
            if any(other.address == new for other in self.nodes()):
                raise InvalidName(f"{new} is taken: choose another address.")
            self.network.address(node, new)
            host.address = new
            self._write_known_hosts()

    def wipe(self, node: str) -> None:
        """Replace the disk of a host by a bare one and start it; its name and address stay."""
        with self.folders.locked():
            host = self.node(node)
            host.kill()
            host.wipe(key=self._public_key())
            self._write_known_hosts()
            host.start()
        host.wait()

    def status(self) -> LabStatus:
        """Return the state of the lab and of its hosts."""
        nodes = self.nodes() if self.is_up() else []
        return LabStatus(
            name=self.name,
            up=self.is_up(),
            folder=self.folder,
            nodes=[node.status() for node in nodes],
            layers=self.snapshots.names(),
        )

    def is_up(self) -> bool:
        """Return whether it was created since this machine booted; its hosts may be off."""
        current = self._ready.exists() and self._ready.read_text() == BOOT_ID.read_text()
        return current and (NAMESPACES / self.network.controller).exists()

    def nodes(self) -> list[Node]:
        """Return all hosts, including those that are off; raises `NoLab` if it is not up."""
        if not self.is_up():
            raise NoLab(self.name)
        return self._nodes()

    def node(self, name: str) -> Node:
        """Return a host by its name; raises `NoLab` and `NoNode`."""
        nodes = {node.name: node for node in self.nodes()}
        if name not in nodes:
            raise NoNode(name, known=list(nodes))
        return nodes[name]

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command line that runs the command `words` in the lab's network.

        The variables `HEARTH_LAB_*` of the command refer to this lab. Raises `NoLab`.
        """
        if not self.is_up():
            raise NoLab(self.name)
        base = systems.tree_in(self.folders.bases, systems.named(systems.DEFAULT))
        settings = {"DIR": self.folders.root, "NAME": self.name, "KEY": self.key, "BASE": base}
        variables = [f"HEARTH_LAB_{name}={value}" for name, value in settings.items()]
        return inside(self.network.controller, ["env", *variables, *words])

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        settings: Mapping[str, str] | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab's network and capture its output.

        Args:
            words: The command and its arguments.
            cwd: Its working directory.
            settings: Environment variables to add.
            check: Whether to raise an error if it fails.
            seconds: Time limit; None for no limit.

        Raises:
            ProgramFailed: The exit code is not 0 and `check` is true.
            subprocess.TimeoutExpired: The command took longer than `seconds`.
        """
        variables = [f"{name}={value}" for name, value in (settings or {}).items()]
        ended = subprocess.run(
            self.command(["env", *variables, *words]),
            capture_output=True, text=True, cwd=cwd, check=False, timeout=seconds,
        )  # fmt: skip
        if check and ended.returncode != 0:
            raise ProgramFailed(words, ended.returncode, ended.stdout + ended.stderr)
        return ended

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Switch this thread to the lab's network: sockets opened in the block reach only hosts."""
        if not self.is_up():
            raise NoLab(self.name)
        with entered(self.network.controller):
            yield

    def namespace_processes(self) -> set[int]:
        """Return the processes in the lab's namespaces, except this process and its ancestors."""
        namespaces = {inode(name) for name in self.network.namespaces()}
        pids = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
        return {pid for pid in pids - _ancestors() if _network_of(pid) in namespaces}

    def _nodes(self) -> list[Node]:
        folder = self.folder / "nodes"
        paths = sorted(folder.iterdir(), key=_number) if folder.is_dir() else []
        return [Node(path.name, path, self.network) for path in paths]

    def _tree(self, system: systems.System) -> Path:
        keep = self.snapshots.foundations()
        return systems.make(self.folders.bases, system, keep=keep, report=self._report)

    def _host(self, name: str, base: Path, snapshot: str | None) -> Node:
        node = Node(name, self.folder / "nodes" / name, self.network)
        disk = self.snapshots.disk(snapshot, name) if snapshot is not None else None
        if not (node.folder / "address").exists():
            node.make(base, disk, key=self._public_key())
            node.address = address_of(_number(node.folder))
        return node

    def _public_key(self) -> str:
        return self.key.with_suffix(".pub").read_text(encoding="ascii")

    def _prepare(self) -> None:
        proxy = packages.Proxy(self.folders)
        proxy.start()
        if not self.is_up():
            self.folder.mkdir(parents=True)
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", self.key)
            self.network.make()
            self._ready.write_text(BOOT_ID.read_text())
        packages.serve_in(self.network.controller, proxy)

    def _write_known_hosts(self) -> None:
        lines = [f"{node.address} {node.host_key()}\n" for node in self._nodes()]
        draft = self.folder / "known_hosts.draft"
        draft.write_text("".join(lines), encoding="ascii")
        draft.rename(self.folder / "known_hosts")  # an ssh client may be reading it

    def _clear(self) -> None:
        """Kill all processes of the lab and remove its network and files, also after a crash."""
        for name in {node.name for node in self._nodes()} | nodes_of(self.name):
            Node(name, self.folder / "nodes" / name, self.network).kill()
        for pid in self.namespace_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.network.remove()
        remove(self.folder)


def _number(path: Path) -> int:
    return int(path.name.removeprefix("node"))


def _network_of(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return 0


def _ancestors() -> set[int]:
    pids, pid = set(), os.getpid()
    while pid > 0:
        pids.add(pid)
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        pid = int(stat.rpartition(")")[2].split()[1])
    return pids
