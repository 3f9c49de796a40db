"""The network of a lab: a bridge with a virtual cable to each host, in separate namespaces.

It is invisible to the rest of the machine and has no route to other networks: processes in it
reach only the hosts of that lab. So every lab can use the same addresses.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from hearth.lab.errors import InvalidName
from hearth.lab.programs import NAMESPACES, run

BRIDGE_ADDRESS = IPv4Address("10.231.7.1")
PREFIX = 24
FIRST_HOST = 10
MAX_NODES = 200
BRIDGE = "lab0"
CLONE_NEWNET = 0x40000000
"""setns(2)"""


@dataclass(frozen=True)
class Network:
    """The namespaces of a lab: `hearth-NAME` (controller) and one `hearth-NAME-nodeN` per host."""

    lab: str

    @property
    def controller(self) -> str:
        """The name of the namespace with the bridge, in which `hearth lab exec` runs commands."""
        return f"hearth-{self.lab}"

    def namespace_of(self, node: str) -> str:
        """Return the name of a host's namespace."""
        return f"{self.controller}-{node}"

    def make(self) -> None:
        """Create the controller's namespace and the bridge."""
        run("ip", "netns", "add", self.controller)
        _batch(
            self.controller,
            "link set lo up",
            f"link add {BRIDGE} type bridge forward_delay 0",
            f"address add {BRIDGE_ADDRESS}/{PREFIX} dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )

    def plug(self, node: str, address: IPv4Address) -> None:
        """Create a host's namespace and its cable to the bridge, unless both exist."""
        namespace = self.namespace_of(node)
        if (NAMESPACES / namespace).exists():
            if self.is_plugged(node):
                return
            run("ip", "netns", "delete", namespace)
        run("ip", "netns", "add", namespace)
        _batch(
            self.controller,
            f"link add {node} type veth peer name eth0 netns {namespace}",
            f"link set {node} master {BRIDGE} up",
        )
        self.address(node, address)

    def is_plugged(self, node: str) -> bool:
        """Return whether a host has a cable."""
        return f" {node}@" in run("ip", "-n", self.controller, "-oneline", "link")

    def address(self, node: str, address: IPv4Address) -> None:
        """Replace all addresses of a host by one, as a router's DHCP server can do."""
        _batch(
            self.namespace_of(node),
            "link set lo up",
            "address flush dev eth0 scope global",
            f"address add {address}/{PREFIX} dev eth0",
            "link set eth0 up",
            f"route replace default via {BRIDGE_ADDRESS}",
        )

    def partition(self, node: str) -> None:
        """Disconnect a host, as if its cable were pulled."""
        run("ip", "-n", self.controller, "link", "set", node, "down")

    def reconnect(self, node: str) -> None:
        """Connect a host again."""
        run("ip", "-n", self.controller, "link", "set", node, "up")

    def is_partitioned(self, node: str) -> bool:
        """Return whether a host with a cable is disconnected."""
        link = run("ip", "-n", self.controller, "-oneline", "link", "show", "dev", node)
        return "UP" not in link.partition("<")[2].partition(">")[0].split(",")

    def namespaces(self) -> list[str]:
        """Return the names of the existing namespaces, those of the hosts first."""
        if not NAMESPACES.is_dir():
            return []
        names = [entry.name for entry in NAMESPACES.iterdir()]
        hosts = sorted(n for n in names if re.fullmatch(rf"{self.controller}-node[0-9]+", n))
        return [*hosts, *(n for n in names if n == self.controller)]

    def remove(self) -> None:
        """Delete the namespaces, which also deletes the bridge and the cables."""
        for namespace in self.namespaces():
            run("ip", "netns", "delete", namespace)


def address_of(number: int) -> IPv4Address:
    """Return the initial address of host `number`, counted from 1."""
    return BRIDGE_ADDRESS - 1 + FIRST_HOST + number


def checked_address(text: str) -> IPv4Address:
    """Parse the address of a host; raises `InvalidName` if no host of a lab can have it."""
    try:
        address = IPv4Address(text)
    except ValueError as error:
        raise InvalidName(
            f"{text!r} is not a valid address: use one such as {address_of(1)}."
        ) from error
    first = BRIDGE_ADDRESS - 1
    if not BRIDGE_ADDRESS < address < first + 2 ** (32 - PREFIX) - 1:
        raise InvalidName(
            f"{address} is not on the lab's network: choose an address in {first}/{PREFIX} other "
            f"than {BRIDGE_ADDRESS}."
        )
    return address


@contextmanager
def entered(namespace: str) -> Iterator[None]:
    """Switch this thread to a network namespace; sockets opened in the block stay in it."""
    with Path("/proc/thread-self/ns/net").open("rb") as original:
        with (NAMESPACES / namespace).open("rb") as target:
            _enter(target.fileno())
        try:
            yield
        finally:
            _enter(original.fileno())


def inode(namespace: str) -> int:
    """Return the inode of a namespace, which `/proc/PID/ns/net` has for the processes in it."""
    return (NAMESPACES / namespace).stat().st_ino


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _batch(namespace: str, *commands: str) -> None:
    run("ip", "-n", namespace, "-batch", "-", input_="\n".join(commands) + "\n")
