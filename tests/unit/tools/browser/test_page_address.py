"""Addresses of pages, and the hosts that a document names for the browser."""

import pytest

from pipecatapp.tools.browser.page_address import end_point, page_address
from pipecatapp.tools.browser.session import Browsers
from pipecatapp.workflow import ToolFailed


def test_address_of_a_page_is_completed_or_refused() -> None:
    """People leave out the scheme; models copy anything."""
    assert page_address(" example.org/x ") == "https://example.org/x"
    assert page_address("localhost:8000") == "https://localhost:8000"
    for text in ("https://", "http://a b/", "https://x.org:99999/", "http://[::1", "http://x\\y/"):
        with pytest.raises(ToolFailed, match="is not a valid address"):
            page_address(text)
    with pytest.raises(ToolFailed, match="user or password"):
        page_address("https://me:secret@x.org/")


def test_end_point_has_the_host_as_it_is_compared() -> None:
    """A pattern of a document must match however the address is written."""
    assert end_point("http://EXAMPLE.org./") == ("example.org", 80)
    assert end_point("https://[::1]:8443/x") == ("::1", 8443)
    assert end_point("https://bücher.example/") == ("xn--bcher-kva.example", 443)
    assert end_point("about:blank") == ("", 0)


def test_hosts_of_a_document_restrict_the_pages() -> None:
    """Without any, every public host is open; a private one of the setting is not named by it."""
    browsers = Browsers(["nas.lan:5000"])

    assert browsers.policy([]).names("example.org", 443)
    named = browsers.policy(["*.example.org", "nas.lan"])
    assert named.names("a.example.org", 443)
    assert named.names("nas.lan", 5000)
    assert not named.names("example.com", 443)
    assert not browsers.policy(["example.org"]).names("nas.lan", 5000)


@pytest.mark.parametrize("text", ["*", "*:443", "http://x.org", "x.org/path", "a b", ""])
def test_document_names_hosts_and_not_everything(text: str) -> None:
    """A `*` would open every address without the approval of a person."""
    with pytest.raises(ToolFailed, match=r"is not (a )?valid"):
        Browsers().policy([text])
