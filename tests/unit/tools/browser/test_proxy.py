"""What the browser's proxy makes of a request."""

import pytest

from pipecatapp.tools.browser.proxy import parsed


def test_request_is_passed_on_without_what_is_for_the_proxy() -> None:
    """The server must not learn of the proxy, and the connection carries one request only."""
    head = (
        b"POST http://Example.org:8080/a?b=http://c/ HTTP/1.1\r\nHost: example.org:8080\r\n"
        b"Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n"
    )

    request = parsed(head)

    assert request is not None
    assert (request.host, request.port, request.tunnel) == ("example.org", 8080, False)
    assert request.first == (
        b"POST /a?b=http://c/ HTTP/1.1\r\nHost: example.org:8080\r\nContent-Length: 3\r\n"
        b"Connection: close\r\n\r\n"
    )


def test_tunnel_names_its_host() -> None:
    """Encrypted pages and web sockets."""
    request = parsed(b"CONNECT [2001:db8::1]:8443 HTTP/1.1\r\nHost: x\r\n\r\n")

    assert request is not None
    assert (request.host, request.port, request.tunnel) == ("2001:db8::1", 8443, True)


@pytest.mark.parametrize(
    "head",
    [b"GET / HTTP/1.1\r\n\r\n", b"GET ftp://x/ HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n",
     b"CONNECT x:99999 HTTP/1.1\r\n\r\n", b"GET file:///etc/passwd HTTP/1.1\r\n\r\n"],
)  # fmt: skip
def test_anything_else_is_no_request_to_a_proxy(head: bytes) -> None:
    """It is not answered at all."""
    assert parsed(head) is None
