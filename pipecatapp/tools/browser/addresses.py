"""Which addresses the browser may open.

Public addresses are open. A private address (loopback, the home network, a link-local address) is
open only if the setting of the service and the document both name its host. The decision is made on
the resolved address, so a public name that resolves to a private address is refused, too.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

import psutil

from pipecatapp.workflow import ToolFailed

SCHEMES: Final = {"http": 80, "https": 443}
"""The schemes that are opened, and their ports."""
LONGEST: Final = 4096
"""Characters of an address."""
SMALLEST_PREFIX: Final = {4: 8, 6: 48}
"""Networks with shorter prefixes are larger than a home."""
NAT64: Final = ip_network("64:ff9b::/96")
_HOST: Final = re.compile(r"(\*\.)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class HostPattern:
    """`example.org`, `*.example.org` (with all below it) or `127.0.0.1:8000`."""

    host: str
    port: int | None = None
    below: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern; raises `ValueError` with a sentence."""
        found = _HOST.fullmatch(text.strip())
        if found is None:
            raise ValueError(
                f"{text!r} is not a host: write `example.org`, `*.example.org` or `127.0.0.1:8000`."
            )
        port = int(found[3]) if found[3] else None
        return cls(plain_host(found[2]), port, found[1] is not None)

    def matches(self, host: str, port: int) -> bool:
        """Whether it names this host and port."""
        if self.port not in (None, port):
            return False
        return host == self.host or (self.below and host.endswith(f".{self.host}"))


@dataclass(frozen=True)
class Grant:
    """The hosts that a document names, and the private hosts that the service permits."""

    hosts: tuple[HostPattern, ...] = ()
    """Pages of other hosts are not opened; empty: every public host."""
    private: tuple[HostPattern, ...] = ()

    def names(self, host: str, port: int) -> bool:
        """Whether a page of this host may be opened."""
        return not self.hosts or any(one.matches(host, port) for one in self.hosts)

    def permits_private(self, host: str, port: int) -> bool:
        """Whether both the document and the service name this private host."""
        named = any(one.matches(host, port) for one in self.hosts if not one.below)
        return named and any(one.matches(host, port) for one in self.private)

    def refusal(self, host: str, port: int, found: Iterable[Address]) -> str:
        """Return why the addresses of a host may not be contacted; empty if they may."""
        private = next((one for one in found if not is_public(one)), None)
        if private is None or self.permits_private(host, port):
            return ""
        named = (
            f"{host} is" if host == str(private) else f"{host} has the private address {private},"
        )
        return (
            f"{named} {'a private address' if host == str(private) else 'which is'} not open to the"
            " browser. To permit it, name"
            f" {host}:{port} in PIPECATAPP_BROWSER_PRIVATE and in `hosts` of the step."
        )


def patterns(texts: Sequence[str]) -> tuple[HostPattern, ...]:
    """Read several patterns; raises `ToolFailed` for a wrong one."""
    try:
        return tuple(HostPattern.parse(text) for text in texts)
    except ValueError as error:
        raise ToolFailed(str(error)) from error


def page_address(text: str) -> str:
    """Return a complete http(s) address; raises `ToolFailed` for any other."""
    text = text.strip()
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)", text) is None:
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ToolFailed(f"{text[:200]!r} is not an address: {error}.") from error
    if parts.scheme not in SCHEMES:
        raise ToolFailed(
            f"Addresses that begin with `{parts.scheme}:` are not opened: the address must begin"
            " with https:// or http://."
        )
    if not host or len(text) > LONGEST or re.search(r"[\s\x00-\x1f\\]", text):
        raise ToolFailed(f"{text[:200]!r} is not an address of a web page.")
    if "@" in parts.netloc:
        raise ToolFailed("An address with a user name or a password is not opened: leave it out.")
    return text


def end_point(address: str) -> tuple[str, int]:
    """Return host and port of an http(s) address."""
    parts: SplitResult = urlsplit(address)
    return plain_host(parts.hostname or ""), parts.port or SCHEMES.get(parts.scheme, 0)


def plain_host(host: str) -> str:
    """Return a host in the one form that is compared: lower case, no brackets, no final dot."""
    return host.strip("[]").rstrip(".").lower()


def is_public(address: Address) -> bool:
    """Whether an address belongs to no private or special network, and to none of this machine."""
    inner = _inside(address)
    if inner is not None and not is_public(inner):
        return False
    own = any(
        address in network for network in own_networks() if network.version == address.version
    )
    return address.is_global and not address.is_multicast and not own


def _inside(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for, or None."""
    if isinstance(address, IPv4Address):
        return None
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


def own_networks() -> list[Network]:
    """Return the networks of this machine: devices of a home have global IPv6 addresses."""
    found = []
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            network = _network(one.address, one.netmask)
            if network is not None and network.prefixlen >= SMALLEST_PREFIX[network.version]:
                found.append(network)
    return found


def _network(address: str, netmask: str | None) -> Network | None:
    try:
        own = ip_address(address.partition("%")[0])
    except ValueError:  # a hardware address
        return None
    if netmask is None:
        return ip_network(own)
    if isinstance(own, IPv6Address):
        return ip_interface(f"{own}/{int(ip_address(netmask)).bit_count()}").network
    return ip_interface(f"{own}/{netmask}").network
