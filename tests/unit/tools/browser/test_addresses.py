"""Which addresses the browser may open."""

from ipaddress import ip_address

import pytest

from pipecatapp.tools.browser.addresses import (
    Grant,
    HostPattern,
    end_point,
    is_public,
    page_address,
    patterns,
)
from pipecatapp.workflow import ToolFailed


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
     "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1",
     "ff02::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "192.0.2.1"],
)  # fmt: skip
def test_special_address_is_private(address: str) -> None:
    """Each of these reaches a device of the home, this machine, or a cloud's secrets."""
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_address_of_the_internet_is_public(address: str) -> None:
    """A browser that opens nothing is of no use."""
    assert is_public(ip_address(address))


def test_private_host_needs_both_grants_and_its_exact_name() -> None:
    """A model can write a document, and a document does not know the home."""
    both = patterns(["router.lan:80"])
    private = [ip_address("192.168.1.1"), ip_address("1.1.1.1")]

    assert Grant(both, both).refusal("router.lan", 80, private) == ""
    for grant in (Grant(), Grant(both), Grant((), both), Grant(patterns(["*.lan"]), both)):
        assert "192.168.1.1" in grant.refusal("router.lan", 80, private)
    assert "name router.lan:81" in Grant(both, both).refusal("router.lan", 81, private)
    assert Grant().refusal("example.org", 443, [ip_address("1.1.1.1")]) == ""


def test_patterns_name_hosts_and_what_is_below() -> None:
    """`*.example.org` must not name `badexample.org`."""
    below, exact = HostPattern.parse("*.Example.org"), HostPattern.parse("[::1]:8000")

    assert below.matches("example.org", 443)
    assert below.matches("a.b.example.org", 80)
    assert not below.matches("badexample.org", 443)
    assert exact.matches("::1", 8000)
    assert not exact.matches("::1", 80)
    for text in ("", "http://x.org", "x.org/path", "a b", "*"):
        with pytest.raises(ToolFailed, match="is not a host"):
            patterns([text])


def test_address_of_a_page_is_completed_or_refused() -> None:
    """People leave out the scheme; models copy anything."""
    assert page_address(" example.org/x ") == "https://example.org/x"
    assert page_address("localhost:8000") == "https://localhost:8000"
    assert end_point("http://EXAMPLE.org./") == ("example.org", 80)
    for text in ("https://", "http://a b/", "https://x.org:99999/", "http://[::1", "http://x\\y/"):
        with pytest.raises(ToolFailed, match="is not an address"):
            page_address(text)
    with pytest.raises(ToolFailed, match="user name or a password"):
        page_address("https://me:secret@x.org/")
