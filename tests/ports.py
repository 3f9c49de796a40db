"""Ports of loopback for programs that cannot take port 0 and say which one they got.

Whatever is asked of the kernel, let go and used a second later may be somebody else's by then.
These lie below what the kernel gives to clients and Nomad to jobs, and each stays reserved for as
long as the process lives, so that two runs of the tests on one machine never get the same one.
"""

import atexit
import random
import socket
from collections.abc import Collection

PORTS = range(10_000, 20_000)

_signs: dict[int, socket.socket] = {}
"""Port -> a socket whose abstract name reserves it for this process."""


def free_port() -> int:
    """A port for TCP and UDP that nobody else is given."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """So many of them, all different."""
    chosen = random.sample(PORTS, len(PORTS))
    found: list[int] = []
    while len(found) < count:
        if _reserve(port := chosen.pop()):
            found.append(port)
    return found


def free_base(offsets: Collection[int]) -> int:
    """A port with those at these offsets from it."""
    bases = PORTS[: -max(offsets)]
    for base in random.sample(bases, len(bases)):
        ports = [base + offset for offset in offsets]
        got = [port for port in ports if _reserve(port)]
        if len(got) == len(ports):
            return base
        for port in got:
            _signs.pop(port).close()
    raise LookupError(f"No base in {PORTS} has all of its ports free.")


def _reserve(port: int) -> bool:
    """Whether it is ours now."""
    sign = socket.socket(socket.AF_UNIX)
    try:
        sign.bind(f"\0hearth-test-port-{port}")
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("127.0.0.1", port))
    except OSError:
        sign.close()
        return False
    _signs[port] = sign
    return True


@atexit.register
def _release() -> None:
    """Release all ports: Python warns of each socket that is still open when it ends."""
    for sign in _signs.values():
        sign.close()
