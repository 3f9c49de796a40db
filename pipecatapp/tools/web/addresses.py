"""Which hosts and addresses tools may connect to: requests over HTTP and the browser.

A host name is looked up once, its addresses are checked, and the caller connects to exactly these
addresses. Looking the name up again would let its owner exchange the address in between (DNS
rebinding). Every redirect is a new address and has to be checked again.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
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

import httpx2
import psutil

from pipecatapp.workflow import ToolFailed

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Looks up a host name for a port; raises `OSError` for an unknown name."""

SETTING: Final = "PIPECATAPP_WEB_PRIVATE"
"""The setting that names private hosts."""
SECONDS: Final = 10.0
"""Time to look up a name."""
MAX_URL: Final = 8192
"""Characters of an address."""
SHOWN: Final = 200
"""Characters of an address in a message."""
MAX_PORT: Final = 65535
SCHEMES: Final = {"http": 80, "https": 443}
"""The schemes that are opened, and their ports."""
SMALLEST_PREFIX: Final = {4: 8, 6: 48}
"""Networks of this machine with shorter prefixes are larger than a home."""
NAT64: Final = IPv6Network("64:ff9b::/96")
"""Prefix of IPv6 addresses that a network translates to IPv4. Source: RFC 6052, section 2.1."""
NAME: Final = re.compile(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")
USER: Final = re.compile(r"//[^/]*@")


class AddressRefused(ToolFailed):
    """An address that tools may not connect to, and how to permit it."""


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public internet.

    False for private, loopback, link-local, shared, multicast and reserved addresses, also where an
    IPv6 address contains such an IPv4 address (mapped, 6to4, Teredo, NAT64), and for all addresses
    in the networks of this machine: devices of a home have global IPv6 addresses.
    """
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        inner = _inner(address)
        if inner is not None and not is_public(inner):
            return False
    return _is_global(address) and not _is_of_this_machine(address)


def _is_global(address: Address) -> bool:
    """Return whether no registry of special addresses lists an address."""
    if isinstance(address, IPv6Address):
        if address in NAT64:  # reserved for translators; the inner address decides
            return True
        if address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _inner(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address end at, if it contains one."""
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.sixtofour or (teredo[1] if teredo else None)


def _is_of_this_machine(address: Address) -> bool:
    return any(
        address in network for network in own_networks() if network.version == address.version
    )


def own_networks() -> list[Network]:
    """Return the networks of this machine that are as small as one of a home."""
    found = []
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            network = _own_network(one.address, one.netmask)
            if network is not None and network.prefixlen >= SMALLEST_PREFIX[network.version]:
                found.append(network)
    return found


def _own_network(address: str, netmask: str | None) -> Network | None:
    own = literal(address.partition("%")[0])
    if own is None:  # a hardware address
        return None
    if netmask is None:
        return ip_network(own)
    if isinstance(own, IPv6Address):
        return ip_interface(f"{own}/{int(ip_address(netmask)).bit_count()}").network
    return ip_interface(f"{own}/{netmask}").network


@dataclass(frozen=True)
class HostPattern:
    """A host of a list, or several.

    `example.org`, `*.example.org` (its subdomains), `*` (every public host), `192.168.1.5` or
    `192.168.1.0/24`; with `:8443` only that port.
    """

    text: str
    host: str
    port: int | None
    network: Network | None
    """The addresses that it names; None for a name."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a pattern; raises `ValueError` with the reason."""
        host, port = _split(text.strip())
        if "%" in host:
            raise ValueError(f"{text!r} is not a valid host: leave out the zone after the %.")
        try:
            network = ip_network(host, strict=False)
        except ValueError as error:
            if "/" in host and literal(host.partition("/")[0]) is not None:
                raise ValueError(f"{text!r} is not a valid network: {error}.") from error
            return cls(text, _name(host, text), port, None)
        return cls(text, str(network), port, network)

    @property
    def is_one_host(self) -> bool:
        """Whether it names a single host: not a pattern of names, and not a network."""
        return not self.host.startswith("*") and (
            self.network is None or self.network.num_addresses == 1
        )

    def names(self, host: str, port: int) -> bool:
        """Return whether it names a host as it is written in an address."""
        if self.network is not None:
            address = literal(host)
            return address is not None and self.holds(address, port)
        if self.port not in (None, port):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host in ("*", host)

    def holds(self, address: Address, port: int) -> bool:
        """Return whether it is this address, or a network with it."""
        if self.network is None or self.port not in (None, port):
            return False
        return _plain(address) in self.network


def _split(text: str) -> tuple[str, int | None]:
    """Split `host:port`; IPv6 addresses with a port are in brackets."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        if not bracket or ":" not in host:
            raise ValueError(_not_a_host(text))
    elif text.count(":") == 1:
        host, colon, port = text.partition(":")
    else:
        host, colon, port = text, "", ""
    if not colon:
        return host, None
    if colon != ":" or not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        raise ValueError(_not_a_host(text))
    return host, int(port)


def _name(host: str, text: str) -> str:
    """Return the name of a pattern in its plain form; raises `ValueError`."""
    below = "*." if host.startswith("*.") else ""
    try:
        name = below + plain_host(host.removeprefix(below))
    except ValueError as error:
        raise ValueError(_not_a_host(text)) from error
    if NAME.fullmatch(name) is None:
        raise ValueError(_not_a_host(text))
    return name


def _not_a_host(text: str) -> str:
    return (
        f"{text!r} is not a valid host: write a name such as example.org, a pattern such as"
        " *.example.org, an address such as 192.168.1.5 or a network such as 192.168.1.0/24,"
        " with a port if you like, without https:// and without a path."
    )


def plain_host(host: str) -> str:
    """Return a host in the one form that is compared: lower case, ASCII, no brackets, no final dot.

    Raises `ValueError` for a name that has no ASCII form.
    """
    host = host.strip("[]")
    if not host.isascii():
        try:
            host = httpx2.URL(scheme="http", host=host).raw_host.decode("ascii")
        except httpx2.InvalidURL as error:
            raise ValueError(str(error)) from error
    return host.lower().rstrip(".")


def literal(host: str) -> Address | None:
    """Return the address if a host is written as one, otherwise None."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


async def look_up(host: str, port: int) -> Sequence[Address]:
    """Look up a host name as the system does: DNS, the hosts file, mDNS."""
    loop = asyncio.get_running_loop()
    rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(row[4][0])) for row in rows))


@dataclass(frozen=True)
class Target:
    """An address that was checked, and where to connect to for it."""

    url: httpx2.URL
    host: str
    """The name or address in the URL, lower case, names in their ASCII form."""
    port: int
    addresses: tuple[Address, ...]
    """Connect to one of these and to no other; the first is the preferred one."""

    @property
    def is_private(self) -> bool:
        """Whether it leads to a private address, which was named."""
        return not all(map(is_public, self.addresses))


class AddressPolicy:
    """The hosts that tools may connect to.

    `hosts` are the patterns that permit public addresses; `private` those that also permit private
    and loopback addresses, and need no pattern in `hosts`. With `both`, a private host must be in
    both lists: `hosts` names exactly this host, and `private` names it as it is written, because
    the owner of a public name in `hosts` could point it into a network in `private`. Raises
    `ValueError` for an invalid pattern.
    """

    def __init__(
        self,
        hosts: Collection[str] = ("*",),
        private: Collection[str] = (),
        *,
        both: bool = False,
        resolver: Resolver = look_up,
    ) -> None:
        self._hosts = [HostPattern.read(text) for text in hosts]
        self._private = [HostPattern.read(text) for text in private]
        for one in self._private:
            if one.host == "*" or (one.network is not None and one.network.prefixlen == 0):
                raise ValueError(
                    f"{one.text!r} would permit every private address: name hosts or networks."
                )
        self._both, self._resolver = both, resolver

    def for_hosts(self, hosts: Collection[str]) -> "AddressPolicy":
        """Return a policy for other public hosts; the private ones stay the same."""
        private = [one.text for one in self._private]
        return AddressPolicy(hosts, private, both=self._both, resolver=self._resolver)

    def and_hosts(self, hosts: Collection[str]) -> "AddressPolicy":
        """Return a policy that permits these public hosts, too. Raises `ValueError`."""
        return self.for_hosts([*(one.text for one in self._hosts), *hosts])

    def names(self, host: str, port: int) -> bool:
        """Return whether a host is in the lists. Its addresses still have to be checked."""
        return any(one.names(host, port) for one in self._listed)

    @property
    def _listed(self) -> list[HostPattern]:
        return self._hosts if self._both else [*self._hosts, *self._private]

    async def check(self, url: str) -> Target:
        """Look up the host of an address and check it; raises `AddressRefused`."""
        target, host, port = parsed(url)
        if not self.names(host, port):
            known = ", ".join(one.text for one in self._listed) or "none"
            raise AddressRefused(
                f"The host {host!r} is not permitted (permitted: {known}). Its name has to be in"
                " the list of hosts of the step or of the instance."
            )
        return Target(target, host, port, await self.addresses(host, port))

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:
        """Look up a host and return its addresses, to connect to one of these and to no other.

        Raises `AddressRefused` if one of them is private and not permitted, or if there is none.
        """
        found = tuple(await self._found(host, port))
        for address in found:
            if not is_public(address) and not self._permits_private(host, address, port):
                also = " and in `hosts` of the step" if self._both else ""
                raise AddressRefused(
                    f"{host!r} leads to the private address {address}. If that is intended, name"
                    f" {_with_port(host, port)} in the setting {SETTING}{also}."
                )
        return found

    def _permits_private(self, host: str, address: Address, port: int) -> bool:
        """Return whether a private address is named, by itself or by its host."""
        if any(one.names(host, port) for one in self._private):
            return not self._both or any(
                one.names(host, port) for one in self._hosts if one.is_one_host
            )
        return not self._both and any(one.holds(address, port) for one in self._private)

    async def _found(self, host: str, port: int) -> Sequence[Address]:
        if (address := literal(host)) is not None:
            return [address]
        try:
            async with asyncio.timeout(SECONDS):
                found = await self._resolver(host, port)
        except TimeoutError as error:
            raise AddressRefused(f"Looking up {host!r} took longer than {SECONDS:g} s.") from error
        except (OSError, UnicodeError) as error:
            raise AddressRefused(f"The host {host!r} is not known: check its name.") from error
        if not found:
            raise AddressRefused(f"The host {host!r} has no address.")
        return found


def _with_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _plain(address: Address) -> Address:
    """Return an address without its zone, and IPv4 where IPv6 only maps it."""
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def parsed(text: str) -> tuple[httpx2.URL, str, int]:
    """Return an address with its host and port; raises `AddressRefused` for an unusual one.

    Programs disagree about backslashes, spaces and control characters in addresses, so an address
    with one could be checked as another host than the one that is connected to.
    """
    shown = repr(USER.sub("//…@", text)[:SHOWN])  # the message is stored with the run
    if len(text) > MAX_URL:
        raise AddressRefused(f"The address has {len(text)} characters; {MAX_URL} are the limit.")
    if any(letter <= " " or letter.isspace() or letter in "\\\x7f" for letter in text):
        raise AddressRefused(f"{shown} is not a valid address: it has spaces or backslashes.")
    try:
        url = httpx2.URL(text)
        host = plain_host(url.raw_host.decode("ascii"))
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise AddressRefused(f"{shown} is not a valid address: {error}.") from error
    if url.scheme not in SCHEMES or not host:
        raise AddressRefused(
            f"{shown} is not a valid address: it must begin with https:// or http://, and a host."
        )
    port = SCHEMES[url.scheme] if url.port is None else url.port
    if not 0 < port <= MAX_PORT:
        raise AddressRefused(f"{shown} is not a valid address: {port} is not a port.")
    if url.userinfo:
        raise AddressRefused(
            "An address may not contain a user or password: send them in a header, by reference."
        )
    return url, host, port
