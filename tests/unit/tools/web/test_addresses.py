"""The addresses that tools of the web may connect to."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_address
from socket import AF_INET6, AF_PACKET

import psutil
import pytest
from psutil._ntuples import snicaddr

from pipecatapp.tools.web.addresses import (
    Address,
    AddressPolicy,
    AddressRefused,
    HostPattern,
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
        *("127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254"),
        "100.64.0.1",
        *("0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1", "198.18.0.1", "192.0.2.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00::1", "fec0::1", "ff02::1"),
        *("ff0e::1", "::ffff:10.0.0.1"),
        *("::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1"),
        *("2002:7f00:1::", "2001:db8::1", "2001:0:4136:e378:8000:63bf:80ff:fffe"),
    ],
)
def test_an_address_that_is_not_of_the_internet_is_private(text: str) -> None:
    """Each of these reaches a device of the home or of the provider, in some notation."""
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "1.1.1.1", "2606:4700::1", "64:ff9b::808:808", "::ffff:8.8.8.8"]
)
def test_an_address_of_the_internet_is_public(text: str) -> None:
    """Translated addresses are those that they translate to."""
    assert is_public(ip_address(text))


def test_an_address_of_a_network_of_this_machine_is_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Devices of a home have global IPv6 addresses; a network larger than a home is none."""
    lan, wide = "ffff:ffff:ffff:ffff::", "ffff::"
    interfaces = {
        "eth0": [
            snicaddr(AF_PACKET, "02:00:00:00:00:01", None, None, None),
            snicaddr(AF_INET6, "2606:4700:1:2::5%eth0", lan, None, None),
            snicaddr(AF_INET6, "2607:f8b0::5", wide, None, None),
        ]
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: interfaces)

    assert not is_public(ip_address("2606:4700:1:2::99"))
    assert is_public(ip_address("2606:4700:1:3::99"))
    assert is_public(ip_address("2607:f8b0::99"))


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


@pytest.mark.parametrize("rest", ["example.org/", "example.org:99999/", "exa mple.org/", "[::1/"])
def test_an_address_with_a_password_is_refused_without_repeating_it(rest: str) -> None:
    """The sentence is stored with the run."""
    with pytest.raises(AddressRefused) as refused:
        check(f"https://user:hunter2@{rest}")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("host", ["unknown.example", "empty.example"])
def test_a_name_without_an_address_is_refused(host: str) -> None:
    """The sentence names the host, which is often misspelt."""
    with pytest.raises(AddressRefused, match=host):
        check(f"https://{host}/")


@pytest.mark.parametrize(
    "text",
    [
        *("", "https://example.org", "a/b", "exa*mple.org", "example.org:0", "a b", "1.2.3.4/99"),
        *("example.org:", "a..b", "*.", "**", "x@y.org", "a,b", "[::1", "[::1]8000"),
        *("fe80::1%eth0", "fe80::%eth0/10", "[example.org]:80", "example.org?", "example.org#"),
        *("a\\b", "example.org:٣"),
    ],
)
def test_a_pattern_that_is_not_a_host_is_refused(text: str) -> None:
    """A misspelt pattern must not silently permit nothing, or too much."""
    with pytest.raises(ValueError, match="is not a valid"):
        HostPattern.read(text)


@pytest.mark.parametrize("text", ["*", "*:80", "0.0.0.0/0", "::/0"])
def test_every_private_address_cannot_be_permitted_at_once(text: str) -> None:
    """A `*` there would open the service's own ports to every page."""
    with pytest.raises(ValueError, match="name hosts or networks"):
        AddressPolicy(private=[text])


def test_other_hosts_keep_the_private_ones() -> None:
    """A step names public hosts; only the owner of the instance names private ones."""
    policy = AddressPolicy([], ["nas.home.arpa"], resolver=zone).for_hosts(["example.org"])
    assert asyncio.run(policy.check("http://nas.home.arpa/")).is_private
    assert asyncio.run(policy.check("https://example.org/")).addresses


def test_a_pattern_covers_subdomains_and_no_longer_name() -> None:
    """`*.example.org` must not name `badexample.org`; an address is named in every notation."""
    below, exact = HostPattern.read("*.Example.org"), HostPattern.read("[::1]:8000")

    assert below.names("a.b.example.org", 80)
    assert not below.names("badexample.org", 443)
    assert exact.names("::1", 8000)
    assert not exact.names("::1", 80)
    assert HostPattern.read("bücher.example").names("xn--bcher-kva.example", 443)
    assert HostPattern.read("127.0.0.1").names("::ffff:127.0.0.1", 80)


def both(hosts: Sequence[str], private: Sequence[str], url: str) -> Target:
    """Check an address by a policy as the browser has it."""
    return asyncio.run(AddressPolicy(hosts, private, both=True, resolver=zone).check(url))


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("nas.home.arpa", "nas.home.arpa:80"),
        ("nas.home.arpa:80", "*.home.arpa"),
        ("127.0.0.1:80", "127.0.0.0/8"),
    ],
)
def test_a_private_host_that_both_lists_name_is_permitted(host: str, private: str) -> None:
    """The forms of the setting are those of the other tools."""
    name = host.removesuffix(":80")
    assert both([host], [private], f"http://{name}/").is_private


@pytest.mark.parametrize(
    ("hosts", "private"),
    [
        (["*"], ["nas.home.arpa"]),
        (["nas.home.arpa"], []),
        (["nas.home.arpa"], ["nas.home.arpa:81"]),
        (["nas.home.arpa:80"], ["nas.home.arpa:81"]),
        (["*.home.arpa"], ["nas.home.arpa"]),
        (["*", "192.168.1.5"], ["nas.home.arpa"]),
        (["nas.home.arpa"], ["192.168.1.5"]),
        (["nas.home.arpa"], ["192.168.1.0/24"]),
    ],
)
def test_a_private_host_needs_both_lists_and_its_exact_name(
    hosts: list[str], private: list[str]
) -> None:
    """A model can write a document, and a document does not know the home. A network in the setting
    is no name: the owner of a public name that the document names could point it into it."""
    with pytest.raises(AddressRefused, match=r"nas\.home\.arpa:80 in .*PRIVATE and in `hosts`"):
        both(hosts, private, "http://nas.home.arpa/")


def test_a_network_in_the_document_does_not_name_its_devices() -> None:
    """The document has to know the device that it opens."""
    with pytest.raises(AddressRefused, match="private address"):
        both(["127.0.0.0/8"], ["127.0.0.0/8"], "http://127.0.0.1/")


def test_a_host_of_the_setting_alone_opens_no_page() -> None:
    """`hosts` restricts the pages also where the setting names more."""
    with pytest.raises(AddressRefused, match="is not permitted"):
        both(["example.org"], ["nas.home.arpa"], "http://nas.home.arpa/")


def test_a_name_with_one_private_address_of_several_is_refused() -> None:
    """The caller could connect to any of them."""
    with pytest.raises(AddressRefused, match="private address 127"):
        both(["evil.example"], ["127.0.0.0/8"], "http://evil.example/")
    assert both(["example.org"], [], "https://example.org/").addresses
