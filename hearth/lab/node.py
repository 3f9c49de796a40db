"""One host of a lab: its disk, its power, its cable, and a way in."""

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

from hearth.lab.cgroup import Group
from hearth.lab.disk import Disk
from hearth.lab.errors import BootFailed, NoPower
from hearth.lab.network import Network, entered
from hearth.lab.programs import inside, remove, run, start
from hearth.lab.systems import title_of

BOOT_SECONDS = 120.0
STOP_SECONDS = 60.0
STARTING_SECONDS = 5.0
GUARDS_OWN = Path("/run/systemd/nspawn")
"""What systemd-nspawn leaves when it is killed lies in there."""
KEEPER = Path(__file__).parent / "keeper.sh"
GUARD = "systemd-nspawn"

State = Literal["off", "booting", "on"]


class NodeStatus(BaseModel):
    """What `hearth lab status` shows of a host."""

    name: str
    address: IPv4Address
    state: State
    connected: bool
    """Its cable is plugged in."""
    system: str
    """Its operating system, such as `Debian 12`."""


class Node:
    """A host of one lab by its name, `node1` for instance; `folder` holds all there is of it."""

    def __init__(self, name: str, folder: Path, network: Network) -> None:
        self.name, self.folder, self.network = name, folder, network
        self.disk = Disk(folder)
        self.group = Group(network.lab, name)
        self.console = folder / "console.log"

    @property
    def address(self) -> IPv4Address:
        """Where it is reached from inside the lab."""
        return IPv4Address((self.folder / "address").read_text(encoding="ascii"))

    @address.setter
    def address(self, address: IPv4Address) -> None:
        (self.folder / "address").write_text(str(address), encoding="ascii")

    def make(self, base: Path, golden: Disk | None, *, key: str) -> None:
        """Give it a disk, whose root lets the holder of the public `key` in."""
        if golden is None:
            self.disk.make([base])
            self.disk.individualise(self.name)
        else:
            self.disk.make_from(golden)
        self.disk.write("root/.ssh/authorized_keys", key, mode=0o600, folder=0o700)

    def wipe(self, *, key: str) -> None:
        """Give it, while it is off, a disk that is as the first one was, but for its ssh key."""
        base = self.disk.lower[-1]
        for path in (self.disk.upper, self.disk.docker):
            remove(path)
        self.make(base, None, key=key)

    def start(self) -> None:
        """Switch it on, which takes effect at once; `wait` for it to answer."""
        if self._guards():
            return
        self.kill()
        self.disk.prepare()
        self.network.plug(self.name, self.address)
        lower = ":".join(map(str, self.disk.lower))
        command = [
            "unshare", "--mount", "--propagation=slave", "--", "sh", str(KEEPER), str(self.folder),
            lower, self.network.of_node(self.name), self.group.unit, self.name,
        ]  # fmt: skip
        start(self.group.start(command), output=self.console)
        _until(self.is_powered, STARTING_SECONDS)

    def wait(self, seconds: float = BOOT_SECONDS) -> None:
        """Return when its ssh server answers; `BootFailed` when it ends, or does not in time."""
        deadline = time.monotonic() + seconds
        while not self.answers():
            if time.monotonic() > deadline or not self.is_powered():
                raise BootFailed(self.name, self.last_of_console())
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether its ssh server greets."""
        where = (str(self.address), 22)
        with (
            suppress(OSError),
            entered(self.network.controller),
            socket.create_connection(where, timeout=1) as end,
        ):
            return end.recv(4) == b"SSH-"
        return False

    def is_powered(self) -> bool:
        """Whether it has power, whatever it does with it."""
        return bool(self.group.processes())

    def state(self) -> State:
        """Whether it is off, has power, or answers."""
        if not self.is_powered():
            return "off"
        return "on" if self.answers() else "booting"

    def status(self) -> NodeStatus:
        """What there is of it."""
        plugged = self.network.is_plugged(self.name) and not self.network.is_cut(self.name)
        return NodeStatus(
            name=self.name, address=self.address, state=self.state(), connected=plugged,
            system=title_of(self.disk.lower[-1]),
        )  # fmt: skip

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Shut it down in good order; its power is cut when that takes longer than `seconds`."""
        for pid in self._guards():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        _until(lambda: not self.is_powered(), seconds)
        self.kill()

    def kill(self) -> None:
        """Cut its power: every process ends at once, what is on the disk stays as it is."""
        self.group.kill()
        with suppress(FileNotFoundError):
            (GUARDS_OWN / "propagate" / self.group.unit).rmdir()
        with suppress(FileNotFoundError):
            lock = (self.folder / "lock").read_text(encoding="ascii").strip()
            (GUARDS_OWN / "locks" / lock).unlink()

    def reboot(self, seconds: float = BOOT_SECONDS) -> None:
        """Restart it in good order, or switch it on; return when it answers again."""
        if self.is_powered():
            first = self._first_process()
            # systemd(1), SIGRTMIN+5: reboots the machine by way of reboot.target.
            os.kill(first, signal.SIGRTMIN + 5)
            if not _until(lambda: not Path(f"/proc/{first}").exists(), seconds):
                raise BootFailed(self.name, self.last_of_console())
        else:
            self.start()
        self.wait(seconds)

    def cut(self) -> None:
        """Pull its network cable."""
        self.network.cut(self.name)

    def heal(self) -> None:
        """Put its network cable back."""
        self.network.heal(self.name)

    def ssh(self, command: str, *, seconds: float = 120) -> str:
        """What the command prints that root runs on it; `ProgramFailed` when it fails."""
        bounded = f"timeout {seconds} bash -c {shlex.quote(command)}"
        return run(*self.ssh_command(), bounded)

    def ssh_command(self) -> list[str]:
        """The command line of an ssh client that root logs in with."""
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
        """Its public key, as `known_hosts` has it."""
        file = self.disk.find("etc/ssh/ssh_host_ed25519_key.pub")
        assert file is not None
        return " ".join(file.read_text(encoding="ascii").split()[:2])

    def last_of_console(self, lines: int = 15) -> str:
        """What it said last while booting."""
        if not self.console.exists():
            return "(nothing)"
        text = self.console.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _guards(self) -> list[int]:
        """The systemd-nspawn of this host, which hands a request to stop on to the guest."""
        return [pid for pid in self.group.processes() if _name_of(pid) == GUARD]

    def _first_process(self) -> int:
        """Process 1 of the guest, by the number that it has outside."""
        for guard in self._guards():
            children = Path(f"/proc/{guard}/task/{guard}/children").read_text(encoding="ascii")
            if children:
                return int(children.split()[0])
        raise NoPower(self.name)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _until(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (done := true()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return done
