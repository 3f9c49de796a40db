"""One host of a lab: its disk, its power, its network cable and its ssh login."""

import os
import shlex
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from hearth.lab.disk import Disk
from hearth.lab.errors import BootFailed, NoPower
from hearth.lab.host_group import HostGroup
from hearth.lab.network import Network, entered
from hearth.lab.programs import inside, remove, run, start
from hearth.lab.systems import title_of

BOOT_SECONDS = 120.0
STOP_SECONDS = 60.0
STARTING_SECONDS = 5.0
NSPAWN_STATE = Path("/run/systemd/nspawn")
"""Folder with the files that systemd-nspawn does not remove when it is killed."""
KEEPER = Path(__file__).parent / "keeper.sh"
NSPAWN = "systemd-nspawn"

State = Literal["off", "booting", "on"]


class NodeStatus(BaseModel):
    """The state of a host, as `hearth lab status` shows it."""

    name: str
    address: IPv4Address
    state: State
    connected: bool
    """Whether it has a cable and is not partitioned."""
    system: str
    """Its operating system, such as `Debian 12`."""


class Node:
    """A host of a lab, such as `node1`; all its files are in `folder`."""

    def __init__(self, name: str, folder: Path, network: Network) -> None:
        self.name, self.folder, self.network = name, folder, network
        self.disk = Disk(folder)
        self.group = HostGroup(network.lab, name)
        self.console = folder / "console.log"

    @property
    def address(self) -> IPv4Address:
        """The address of the host in the network of the lab."""
        return IPv4Address((self.folder / "address").read_text(encoding="ascii"))

    @address.setter
    def address(self, address: IPv4Address) -> None:
        (self.folder / "address").write_text(str(address), encoding="ascii")

    def make(self, base: Path, snapshot: Disk | None, *, key: str) -> None:
        """Create the disk of the host.

        Args:
            base: The base tree, used if `snapshot` is None.
            snapshot: The disk of a host in a snapshot.
            key: The public key with which root can log in.
        """
        if snapshot is None:
            self.disk.make([base])
            self.disk.individualise(self.name)
        else:
            self.disk.make_from(snapshot)
        self.disk.write("root/.ssh/authorized_keys", key, mode=0o600, folder=0o700)

    def wipe(self, *, key: str) -> None:
        """Replace the disk of a host that is off by one with only the base tree.

        The host gets a new host key and accepts the public key `key`.
        """
        base = self.disk.lower[-1]
        for path in (self.disk.upper, self.disk.docker):
            remove(path)
        self.make(base, None, key=key)

    def start(self) -> None:
        """Switch the host on if it is off; it has power at once, `wait` returns when it is up."""
        if self._containers():
            return
        self.kill()
        self.disk.prepare()
        self.network.plug(self.name, self.address)
        lower = ":".join(map(str, self.disk.lower))
        command = [
            "unshare", "--mount", "--propagation=slave", "--", "sh", str(KEEPER), str(self.folder),
            lower, self.network.namespace_of(self.name), self.group.unit, self.name,
        ]  # fmt: skip
        start(self.group.start(command), output=self.console)
        _until(self.is_powered, STARTING_SECONDS)

    def wait(self, seconds: float = BOOT_SECONDS) -> None:
        """Wait until its ssh server answers.

        Raises `BootFailed` if the host has no power or does not answer within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not self.answers():
            if time.monotonic() > deadline or not self.is_powered():
                raise BootFailed(self.name, self.console_tail())
            time.sleep(0.05)

    def answers(self) -> bool:
        """Return whether its ssh server accepts connections and sends its version."""
        with (
            suppress(OSError),
            entered(self.network.controller),
            socket.create_connection((str(self.address), 22), timeout=1) as connection,
        ):
            return connection.recv(4) == b"SSH-"
        return False

    def is_powered(self) -> bool:
        """Return whether any of its processes runs, also if it hangs."""
        return bool(self.group.processes())

    def state(self) -> State:
        """Return `off`, `booting` (it has power) or `on` (its ssh server answers)."""
        if not self.is_powered():
            return "off"
        return "on" if self.answers() else "booting"

    def status(self) -> NodeStatus:
        """Return the state of the host and of its cable."""
        plugged = self.network.is_plugged(self.name)
        connected = plugged and not self.network.is_partitioned(self.name)
        return NodeStatus(
            name=self.name, address=self.address, state=self.state(), connected=connected,
            system=title_of(self.disk.lower[-1]),
        )  # fmt: skip

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Shut it down cleanly; kill it if that takes longer than `seconds`."""
        for pid in self._containers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        _until(lambda: not self.is_powered(), seconds)
        self.kill()

    def kill(self) -> None:
        """Cut its power: all its processes end at once, and its disk stays as it is."""
        self.group.kill()
        with suppress(FileNotFoundError):
            (NSPAWN_STATE / "propagate" / self.group.unit).rmdir()
        with suppress(FileNotFoundError):
            lock = (self.folder / "lock").read_text(encoding="ascii").strip()
            (NSPAWN_STATE / "locks" / lock).unlink()

    def reboot(self, seconds: float = BOOT_SECONDS) -> None:
        """Restart the host cleanly, or switch it on; return when it answers.

        Raises `BootFailed` if the shutdown or the start takes longer than `seconds`.
        """
        if self.is_powered():
            first = self._first_process()
            # systemd(1): SIGRTMIN+5 starts reboot.target.
            os.kill(first, signal.SIGRTMIN + 5)
            if not _until(lambda: not Path(f"/proc/{first}").exists(), seconds):
                raise BootFailed(self.name, self.console_tail())
        else:
            self.start()
        self.wait(seconds)

    def partition(self) -> None:
        """Disconnect it from the network, as if its cable were pulled."""
        self.network.partition(self.name)

    def reconnect(self) -> None:
        """Connect it to the network again."""
        self.network.reconnect(self.name)

    def ssh(self, command: str, *, seconds: float = 120) -> str:
        """Run a shell command on the host as root and return its standard output.

        Raises `ProgramFailed` if it fails or takes longer than `seconds`.
        """
        bounded = f"timeout {seconds} bash -c {shlex.quote(command)}"
        return run(*self.ssh_command(), bounded)

    def ssh_command(self) -> list[str]:
        """Return the command line that logs in to the host as root."""
        lab = self.folder.parents[1]
        return inside(
            self.network.controller,
            [
                "ssh", "-o", "LogLevel=ERROR", "-i", str(lab / "key"), "-o", "IdentitiesOnly=yes",
                "-o", f"UserKnownHostsFile={lab / 'known_hosts'}",
                "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10",
                f"root@{self.address}",
            ],
        )  # fmt: skip

    def host_key(self) -> str:
        """Return its public host key in the format of `known_hosts`."""
        file = self.disk.find("etc/ssh/ssh_host_ed25519_key.pub")
        assert file is not None
        return " ".join(file.read_text(encoding="ascii").split()[:2])

    def console_tail(self, lines: int = 15) -> str:
        """Return the last lines of its console."""
        if not self.console.exists():
            return "(empty)"
        text = self.console.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _containers(self) -> list[int]:
        """Return the pid of systemd-nspawn, which shuts the guest down on SIGTERM, if it runs."""
        return [pid for pid in self.group.processes() if _name_of(pid) == NSPAWN]

    def _first_process(self) -> int:
        """Return the pid, on this machine, of process 1 of the guest."""
        for pid in self._containers():
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
            if children:
                return int(children.split()[0])
        raise NoPower(self.name)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds
