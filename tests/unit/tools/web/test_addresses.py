"""The addresses that tools of the web may connect to."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address

import pytest

from pipecatapp.tools.web.addresses import (
    Address,
    AddressPolicy,
    AddressRefused,
    Entry,
    Target,
    is_public,
)

ZONE = {
    "example.org": ["93.184.215.14", "2606:2800:21f:cb07::1"],
    "api.example.org": ["93.184.215.15"],
    "evil.example": ["93.184.215.16", "127.0.0.1"],
    "nas.home.arpa": ["192.168.1.5"],
    "2130706433": ["127.0.0.1"],
    "0x7f.1": ["127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
    "empty.example": [],
    "xn--bcher-kva.example": ["93.184.215.17"],
}
"""Names as a resolver answers them: the unit tests open no socket."""


async def zone(host: str, _port: int) -> Sequence[Address]:
    """Answer from ZONE as `getaddrinfo` would."""
    if host not in ZONE:
        raise OSError(-2, "Name or service not known")
    return [ip_address(text) for text in ZONE[host]]


def check(url: str, hosts: Sequence[str] = ("*",), private: Sequence[str] = ()) -> Target:
    """Check an address by a policy."""
    return asyncio.run(AddressPolicy(hosts, private, resolver=zone).check(url))


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "ff0e::1"),
        *("::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1"),
        *("2002:7f00:1::", "2001:db8::1", "2001:0:4136:e378:8000:63bf:80ff:fffe"),
    ],
)
def test_an_address_that_is_not_of_the_internet_is_private(text: str) -> None:
    """Each of these reaches a device of the home or of the provider, in some notation."""
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1", "64:ff9b::808:808", "::ffff:8.8.8.8"])
def test_an_address_of_the_internet_is_public(text: str) -> None:
    """Translated addresses are those that they translate to."""
    assert is_public(ip_address(text))


def test_a_target_has_the_checked_addresses() -> None:
    """The caller connects to these: a second look-up could give others."""
    target = check("https://Example.ORG:8443/a?b=c")
    assert (target.host, target.port) == ("example.org", 8443)
    assert [str(address) for address in target.addresses] == ZONE["example.org"]
    assert not target.is_private


def test_a_name_in_another_script_is_checked_in_its_ascii_form() -> None:
    """An entry for the ASCII form and the letters that a person writes are the same host."""
    assert check("https://bücher.example/", ["xn--bcher-kva.example"]).addresses


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://[::1]/", "http://localhost:8000/", "http://localhost./"),
        *("http://2130706433/", "http://0x7f.1/", "http://[::ffff:127.0.0.1]/"),
        *("http://169.254.169.254/latest/meta-data", "http://nas.home.arpa/"),
        "https://evil.example/",
    ],
)
def test_a_private_address_is_refused_in_every_notation(url: str) -> None:
    """The address decides, not its text; one private address of several is enough."""
    with pytest.raises(AddressRefused, match="private address"):
        check(url)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1/"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
        ("192.168.1.0/24", "http://nas.home.arpa/"),
        ("nas.home.arpa", "http://nas.home.arpa:5000/"),
        ("*.home.arpa", "http://nas.home.arpa/"),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/"),
        ("[::1]:80", "http://[::1]/"),
    ],
)
def test_a_private_address_that_is_named_is_permitted(entry: str, url: str) -> None:
    """Devices of the home are reached on purpose, and need no second entry in `hosts`."""
    assert check(url, ["*", entry] if "/" in entry else [], [entry]).is_private


def test_a_port_that_is_not_named_is_refused() -> None:
    """Naming one service of a machine does not open the others."""
    with pytest.raises(AddressRefused, match="private address 127"):
        check("http://127.0.0.1:8001/", ["*"], ["127.0.0.1:8000"])


def test_a_public_name_that_is_permitted_does_not_reach_the_home() -> None:
    """DNS rebinding: the owner of a permitted name points it to an address of the home."""
    with pytest.raises(AddressRefused, match="leads to the private address 127"):
        check("https://evil.example/", ["evil.example"])


@pytest.mark.parametrize(
    ("hosts", "url", "fine"),
    [
        (["example.org"], "https://example.org/", True),
        (["example.org"], "https://api.example.org/", False),
        (["*.example.org"], "https://api.example.org/", True),
        (["*.example.org"], "https://example.org/", False),
        (["example.org:443"], "https://example.org/", True),
        (["example.org:443"], "http://example.org/", False),
        (["EXAMPLE.org."], "https://example.org./", True),
        ([], "https://example.org/", False),
        (["ample.org"], "https://example.org/", False),
    ],
)
def test_only_hosts_of_the_list_are_permitted(hosts: list[str], url: str, fine: bool) -> None:  # noqa: FBT001
    """A pattern covers subdomains only, so that a name is never longer than it looks."""
    if fine:
        assert check(url, hosts).addresses
        return
    with pytest.raises(AddressRefused, match="is not permitted"):
        check(url, hosts)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "file:///etc/passwd",
            "ftp://example.org/",
            "example.org",
            "",
            "https://",
            "//example.org",
        ),
        *("http://exa mple.org/", "http://a\\@example.org/", "http://example.org/\r\nHost: x"),
        *("http://example.org:99999/", "https://user:secret@example.org/", "http://[::1/"),
        "https://example.org/" + "a" * 9000,
    ],
)
def test_an_unusual_address_is_refused(url: str) -> None:
    """What programs read differently could be checked as one host and reached as another."""
    with pytest.raises(AddressRefused):
        check(url)


def test_an_address_with_a_password_is_refused_without_repeating_it() -> None:
    """The sentence is stored with the run."""
    with pytest.raises(AddressRefused) as refused:
        check("https://user:hunter2@example.org/")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("host", ["unknown.example", "empty.example"])
def test_a_name_without_an_address_is_refused(host: str) -> None:
    """The sentence names the host, which is often misspelt."""
    with pytest.raises(AddressRefused, match=host):
        check(f"https://{host}/")


@pytest.mark.parametrize(
    "text", ["", "https://example.org", "a/b", "exa*mple.org", "example.org:0", "a b", "1.2.3.4/99"]
)
def test_an_entry_that_is_not_a_host_is_refused(text: str) -> None:
    """A misspelt entry must not silently permit nothing, or too much."""
    with pytest.raises(ValueError, match="is not a valid"):
        Entry.read(text)


def test_every_private_address_cannot_be_permitted_at_once() -> None:
    """A `*` there would open the service's own ports to every page."""
    with pytest.raises(ValueError, match="name hosts or networks"):
        AddressPolicy(private=["*"])


def test_other_hosts_keep_the_private_ones() -> None:
    """A step names public hosts; only the owner of the instance names private ones."""
    policy = AddressPolicy([], ["nas.home.arpa"], resolver=zone).for_hosts(["example.org"])
    assert asyncio.run(policy.check("http://nas.home.arpa/")).is_private
    assert asyncio.run(policy.check("https://example.org/")).addresses
