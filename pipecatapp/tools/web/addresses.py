"""Which hosts of a network tools may connect to.

A host name is looked up once, its addresses are checked, and the caller connects to exactly these
addresses. Looking the name up again would let its owner exchange the address in between (DNS
rebinding). Every redirect is a new address and has to be checked again.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

import httpx2

from pipecatapp.workflow import ToolFailed

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Looks up a host name for a port; raises `OSError` for an unknown name."""

SECONDS: Final = 10.0
"""Time to look up a name."""
MAX_URL: Final = 8192
"""Characters of an address."""
MAX_PORT: Final = 65535
SCHEMES: Final = {"http": 80, "https": 443}
NAT64: Final = IPv6Network("64:ff9b::/96")
"""Prefix of IPv6 addresses that a network translates to IPv4. Source: RFC 6052, section 2.1."""


class AddressRefused(ToolFailed):
    """An address that tools may not connect to, and how to permit it."""


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public internet.

    False for private, loopback, link-local, shared, multicast and reserved addresses, also where an
    IPv6 address contains such an IPv4 address (mapped, 6to4, Teredo, NAT64).
    """
    if isinstance(address, IPv6Address):
        inner = _inner(address)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _inner(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address end at, if it contains one."""
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


@dataclass(frozen=True)
class Entry:
    """An entry of a list of hosts.

    `example.org`, `*.example.org` (its subdomains), `*` (every public host), `192.168.1.5` or
    `192.168.1.0/24`; with `:8443` only that port.
    """

    text: str
    host: str
    port: int | None

    @classmethod
    def read(cls, text: str) -> Self:
        """Read an entry; raises `ValueError` with the reason."""
        host, port = _split(text.strip().lower())
        if not host or any(letter in host for letter in "@?#\\ ") or "//" in text:
            raise ValueError(
                f"{text!r} is not a valid host: write a name such as example.org, a pattern such as"
                " *.example.org, an address such as 192.168.1.5 or a network such as"
                " 192.168.1.0/24, without https:// and without a path."
            )
        if "/" in host:
            try:
                host = str(ip_network(host, strict=False))
            except ValueError as error:
                raise ValueError(f"{text!r} is not a valid network: {error}.") from error
        elif "*" in host.removeprefix("*.") and host != "*":
            raise ValueError(f"{text!r} is not a valid host: a * may only be its first part.")
        return cls(text, host.rstrip(".") if host != "*" else host, port)

    def names(self, host: str, port: int) -> bool:
        """Return whether it names a host as it is written in an address."""
        if self.port not in (None, port):
            return False
        if self.host == "*" or self.host == host:
            return True
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        address = literal(host)
        return address is not None and self.holds(address, port)

    def holds(self, address: Address, port: int) -> bool:
        """Return whether it is this address, or a network with it."""
        if self.port not in (None, port) or literal(self.host.partition("/")[0]) is None:
            return False
        return address in ip_network(self.host)


def _split(text: str) -> tuple[str, int | None]:
    """Split `host:port`; IPv6 addresses with a port are in brackets."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        raise ValueError(f"{text!r} is not a valid host: {port!r} is not a port.")
    return host, int(port) if port else None


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

    `hosts` are the entries that permit public addresses; `private` those that also permit private
    and loopback addresses (and need no entry in `hosts`). Raises `ValueError` for an invalid entry.
    """

    def __init__(
        self,
        hosts: Collection[str] = ("*",),
        private: Collection[str] = (),
        *,
        resolver: Resolver = look_up,
        setting: str = "PIPECATAPP_WEB_PRIVATE",
    ) -> None:
        self._hosts = [Entry.read(text) for text in hosts]
        self._private = [Entry.read(text) for text in private]
        if any(entry.host == "*" for entry in self._private):
            raise ValueError("'*' would permit every private address: name hosts or networks.")
        self._resolver, self._setting = resolver, setting

    def for_hosts(self, hosts: Collection[str]) -> "AddressPolicy":
        """Return a policy for other public hosts; the private ones stay the same."""
        private = [entry.text for entry in self._private]
        return AddressPolicy(hosts, private, resolver=self._resolver, setting=self._setting)

    def and_hosts(self, hosts: Collection[str]) -> "AddressPolicy":
        """Return a policy that permits these public hosts, too. Raises `ValueError`."""
        return self.for_hosts([*(entry.text for entry in self._hosts), *hosts])

    async def check(self, url: str) -> Target:
        """Look up the host of an address and check it; raises `AddressRefused`."""
        target, host, port = _parsed(url)
        if not any(entry.names(host, port) for entry in (*self._hosts, *self._private)):
            known = ", ".join(entry.text for entry in (*self._hosts, *self._private)) or "none"
            raise AddressRefused(
                f"The host {host!r} is not permitted (permitted: {known}). Its name has to be in"
                " the list of hosts of the step or of the instance."
            )
        addresses = tuple(await self._addresses(host, port))
        for address in addresses:
            if not is_public(address) and not self._named(host, address, port):
                raise AddressRefused(
                    f"{host!r} leads to the private address {address}. If that is intended, name"
                    f" it in the setting {self._setting}."
                )
        return Target(target, host, port, addresses)

    def _named(self, host: str, address: Address, port: int) -> bool:
        """Return whether a private address is named, by itself or by its host."""
        return any(
            entry.names(host, port) or entry.holds(_plain(address), port) for entry in self._private
        )

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
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


def _plain(address: Address) -> Address:
    """Return an address without its zone, and IPv4 where IPv6 only maps it."""
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def _parsed(text: str) -> tuple[httpx2.URL, str, int]:
    """Return an address with its host and port; raises `AddressRefused` for an unusual one.

    Programs disagree about backslashes, spaces and control characters in addresses, so an address
    with one could be checked as another host than the one that is connected to.
    """
    if len(text) > MAX_URL:
        raise AddressRefused(f"The address has {len(text)} characters; {MAX_URL} are the limit.")
    if any(letter <= " " or letter in "\\\x7f" for letter in text):
        raise AddressRefused(f"{text!r} is not a valid address: it has spaces or backslashes.")
    try:
        url = httpx2.URL(text)
        host = url.raw_host.decode("ascii").lower().rstrip(".")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise AddressRefused(f"{text!r} is not a valid address: {error}.") from error
    if url.scheme not in SCHEMES or not host:
        raise AddressRefused(f"{text!r} is not a valid address: use http:// or https://.")
    port = url.port or SCHEMES[url.scheme]
    if port > MAX_PORT:
        raise AddressRefused(f"{text!r} is not a valid address: {port} is not a port.")
    if url.userinfo:
        raise AddressRefused(
            "An address may not contain a user or password: send them in a header, by reference."
        )
    return url, host.strip("[]"), port
