"""A lab: some hosts, their network, and a place inside from which to work on them."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import BaseModel

from hearth.lab import packages, programs, systems
from hearth.lab.cgroup import nodes_of
from hearth.lab.errors import NameUnfit, NoLab, NoNode, ProgramFailed
from hearth.lab.folders import Folders
from hearth.lab.layers import Layers
from hearth.lab.network import (
    MAX_NODES,
    Network,
    address_of,
    entered,
    fitting_address,
    inode,
)  # fmt: skip
from hearth.lab.node import Node, NodeStatus
from hearth.lab.programs import NAMESPACES, inside, remove, run
from hearth.settings import Settings

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LabStatus(BaseModel):
    """What `hearth lab status` shows; `layers` are those of all labs."""

    name: str
    up: bool
    folder: Path
    nodes: list[NodeStatus]
    layers: list[str]


def tell_nobody(text: str) -> None:
    """What a lab says about long work, for those who do not want to hear it."""


class Lab:
    """`Lab(name="x")` is the lab of that name, whether it is up or not; without, the setting's.

    Several labs can be up side by side: they share the base tree, the golden layers and the
    packages' proxy. `tell` is called with a line before work that takes long.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        root: Path | None = None,
        tell: Callable[[str], None] = tell_nobody,
    ) -> None:
        settings = Settings.load()
        self.name = settings.lab_name if name is None else name
        self.folders = Folders(root or settings.lab_dir)
        self.folder = self.folders.lab(self.name)
        self.network = Network(self.name)
        self.layers = Layers(self.folders)
        self.key = self.folder / "key"
        self._ready = self.folder / "ready"
        self._tell = tell

    def up(
        self,
        nodes: int,
        *,
        layer: str | None = None,
        system: str = systems.DEFAULT,
        systems_of: Mapping[str, str] | None = None,
    ) -> list[Node]:
        """Start that many hosts, wait until they answer, and return them.

        Hosts that run are left alone; hosts that are off are switched on. What a crash of this
        machine has left is cleared away first.

        Args:
            nodes: How many hosts, from 1 to `MAX_NODES`.
            layer: Golden layer that new hosts begin with, if it has them.
            system: Operating system of other new hosts, such as `debian-13`.
            systems_of: Name of a host -> its system, where it differs from `system`.
        """
        programs.check()
        if not 1 <= nodes <= MAX_NODES:
            raise NameUnfit(f"A lab has between 1 and {MAX_NODES} hosts, not {nodes}.")
        with self.folders.alone():
            if not self.is_up():
                self._clear()
            programs.make_room_for_hosts()
            names = [f"node{number}" for number in range(1, nodes + 1)]
            chosen = {name: (systems_of or {}).get(name, system) for name in names}
            trees = {one: self._tree(systems.named(one)) for one in dict.fromkeys(chosen.values())}
            self._prepare()
            hosts = [self._host(name, trees[chosen[name]], layer) for name in names]
            self._write_known_hosts()
            for host in hosts:
                host.start()
        for host in hosts:
            host.wait()
        return hosts

    def down(self) -> bool:
        """Remove it to the last trace; golden layers stay. False when there was nothing of it."""
        programs.check()
        with self.folders.alone():
            there = self.folder.exists() or bool(self.network.namespaces())
            self._clear()
            if not any(self.folders.labs.iterdir()):
                packages.Proxy(self.folders).stop()
        return there

    def save(self, layer: str) -> None:
        """Keep what the hosts have become as a golden layer; those that run are restarted."""
        programs.check()
        self.folders.layer(layer)
        nodes = self.nodes()
        running = [node for node in nodes if node.is_powered()]
        with self.folders.alone():
            self.layers.make_room(layer)
            for node in running:
                node.stop()
            self.layers.save(layer, nodes)
            for node in running:
                node.start()
        for node in running:
            node.wait()

    def drop(self, layer: str) -> None:
        """Remove a golden layer."""
        programs.check()
        with self.folders.alone():
            self.layers.drop(layer)

    def move(self, node: str, address: str) -> None:
        """Give a host another address, as a router may do."""
        with self.folders.alone():
            host, to = self.node(node), fitting_address(address)
            if any(other.address == to for other in self.nodes()):
                raise NameUnfit(f"{to} is taken: choose another address.")
            self.network.address(node, to)
            host.address = to
            self._write_known_hosts()

    def wipe(self, node: str) -> None:
        """Put an empty disk into a host and switch it on: bare, with its name and its address."""
        with self.folders.alone():
            host = self.node(node)
            host.kill()
            host.wipe(key=self._public_key())
            self._write_known_hosts()
            host.start()
        host.wait()

    def status(self) -> LabStatus:
        """What there is of it."""
        nodes = self.nodes() if self.is_up() else []
        return LabStatus(
            name=self.name,
            up=self.is_up(),
            folder=self.folder,
            nodes=[node.status() for node in nodes],
            layers=self.layers.names(),
        )

    def is_up(self) -> bool:
        """Whether it was made since this machine booted; its hosts may be off."""
        made = self._ready.exists() and self._ready.read_text() == BOOT_ID.read_text()
        return made and (NAMESPACES / self.network.controller).exists()

    def nodes(self) -> list[Node]:
        """Its hosts, those that are off as well; `NoLab` when it is not up."""
        if not self.is_up():
            raise NoLab(self.name)
        return self._nodes()

    def node(self, name: str) -> Node:
        """The host of that name; `NoNode` when the lab has none."""
        nodes = {node.name: node for node in self.nodes()}
        if name not in nodes:
            raise NoNode(name, known=list(nodes))
        return nodes[name]

    def command(self, words: Sequence[str]) -> list[str]:
        """The command line that runs `words` inside, where the hosts can be reached."""
        if not self.is_up():
            raise NoLab(self.name)
        base = systems.tree_in(self.folders.bases, systems.named(systems.DEFAULT))
        settings = {"DIR": self.folders.root, "NAME": self.name, "KEY": self.key, "BASE": base}
        added = [f"HEARTH_LAB_{name}={value}" for name, value in settings.items()]
        return inside(self.network.controller, ["env", *added, *words])

    def run(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        settings: Mapping[str, str] | None = None,
        check: bool = True,
        seconds: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, with `settings` added to the environment, and catch its output.

        Raises `ProgramFailed` when it fails and `check` is true, `subprocess.TimeoutExpired` after
        `seconds`.
        """
        added = [f"{name}={value}" for name, value in (settings or {}).items()]
        ended = subprocess.run(
            self.command(["env", *added, *words]),
            capture_output=True, text=True, cwd=cwd, check=False, timeout=seconds,
        )  # fmt: skip
        if check and ended.returncode != 0:
            raise ProgramFailed(words, ended.returncode, ended.stdout + ended.stderr)
        return ended

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets that this thread opens in here reach the hosts, and nothing else."""
        if not self.is_up():
            raise NoLab(self.name)
        with entered(self.network.controller):
            yield

    def insiders(self) -> set[int]:
        """The processes in the lab's namespaces, but for ourselves and who started us."""
        ours = {inode(name) for name in self.network.namespaces()}
        pids = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
        return {pid for pid in pids - _ancestors() if _network_of(pid) in ours}

    def _nodes(self) -> list[Node]:
        found = self.folder / "nodes"
        names = sorted(found.iterdir(), key=_number) if found.is_dir() else []
        return [Node(path.name, path, self.network) for path in names]

    def _tree(self, system: systems.System) -> Path:
        keep = self.layers.foundations()
        return systems.make(self.folders.bases, system, keep=keep, tell=self._tell)

    def _host(self, name: str, base: Path, layer: str | None) -> Node:
        node = Node(name, self.folder / "nodes" / name, self.network)
        golden = self.layers.disk(layer, name) if layer is not None else None
        if not (node.folder / "address").exists():
            node.make(base, golden, key=self._public_key())
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
        draft.rename(self.folder / "known_hosts")  # somebody may be logging in to a host

    def _clear(self) -> None:
        """End what runs, whatever has crashed, and remove what lies there."""
        for name in {node.name for node in self._nodes()} | nodes_of(self.name):
            Node(name, self.folder / "nodes" / name, self.network).kill()
        for pid in self.insiders():
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
