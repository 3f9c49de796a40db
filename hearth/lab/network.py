"""The lab's network: a bridge and a cable to each host, all of it in namespaces of its own.

Nothing of it is seen on the machine outside, and no route leads out: what runs in there reaches
the hosts of that lab and nothing else. So every lab has the same addresses.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from hearth.lab.errors import NameUnfit
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
    """The namespaces of one lab: `hearth-NAME` of the controller, `hearth-NAME-nodeN` of a host."""

    lab: str

    @property
    def controller(self) -> str:
        return f"hearth-{self.lab}"

    def of_node(self, node: str) -> str:
        return f"{self.controller}-{node}"

    def make(self) -> None:
        """The controller's side."""
        run("ip", "netns", "add", self.controller)
        _batch(
            self.controller,
            "link set lo up",
            f"link add {BRIDGE} type bridge forward_delay 0",
            f"address add {BRIDGE_ADDRESS}/{PREFIX} dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )

    def plug(self, node: str, address: IPv4Address) -> None:
        """Give a host its namespace and a cable to the bridge, unless it has both."""
        namespace = self.of_node(node)
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
        return f" {node}@" in run("ip", "-n", self.controller, "-oneline", "link")

    def address(self, node: str, address: IPv4Address) -> None:
        """Give a host that address in place of any that it has, as a router's DHCP may do."""
        _batch(
            self.of_node(node),
            "link set lo up",
            "address flush dev eth0 scope global",
            f"address add {address}/{PREFIX} dev eth0",
            "link set eth0 up",
            f"route replace default via {BRIDGE_ADDRESS}",
        )

    def cut(self, node: str) -> None:
        """Pull the host's cable."""
        run("ip", "-n", self.controller, "link", "set", node, "down")

    def heal(self, node: str) -> None:
        """Put the cable back."""
        run("ip", "-n", self.controller, "link", "set", node, "up")

    def is_cut(self, node: str) -> bool:
        shown = run("ip", "-n", self.controller, "-oneline", "link", "show", "dev", node)
        return "UP" not in shown.partition("<")[2].partition(">")[0].split(",")

    def namespaces(self) -> list[str]:
        """Those that there are, the hosts' first."""
        if not NAMESPACES.is_dir():
            return []
        names = [entry.name for entry in NAMESPACES.iterdir()]
        hosts = sorted(n for n in names if re.fullmatch(rf"{self.controller}-node[0-9]+", n))
        return [*hosts, *(n for n in names if n == self.controller)]

    def remove(self) -> None:
        """Delete the namespaces; bridge and cables go with them."""
        for namespace in self.namespaces():
            run("ip", "netns", "delete", namespace)


def address_of(number: int) -> IPv4Address:
    """The address that the host with that number, counted from 1, has at first."""
    return BRIDGE_ADDRESS - 1 + FIRST_HOST + number


def fitting_address(text: str) -> IPv4Address:
    """The address, if a host can have it; else `NameUnfit`."""
    try:
        address = IPv4Address(text)
    except ValueError as error:
        raise NameUnfit(f"{text!r} is no address, such as {address_of(1)}.") from error
    first = BRIDGE_ADDRESS - 1
    if not BRIDGE_ADDRESS < address < first + 2 ** (32 - PREFIX) - 1:
        raise NameUnfit(f"{address} is not on the lab's network, {first}/{PREFIX}.")
    return address


@contextmanager
def entered(namespace: str) -> Iterator[None]:
    """Sockets that this thread opens in here are in that namespace, and stay there."""
    with Path("/proc/thread-self/ns/net").open("rb") as here:
        with (NAMESPACES / namespace).open("rb") as there:
            _enter(there.fileno())
        try:
            yield
        finally:
            _enter(here.fileno())


def inode(namespace: str) -> int:
    """What tells the namespace of a process: the inode of `/proc/PID/ns/net`."""
    return (NAMESPACES / namespace).stat().st_ino


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _batch(namespace: str, *commands: str) -> None:
    run("ip", "-n", namespace, "-batch", "-", input_="\n".join(commands) + "\n")
