"""Headers, on their way to the server and back."""

import pytest

from moe_gateway.http.headers import heard, request_head, request_id


def test_servers_get_the_callers_headers_without_what_is_not_for_them() -> None:
    """The caller's key, hop-by-hop headers and `X-Conversation-Id` end at the gateway."""
    told = heard(
        [
            (b"host", b"gateway"),
            (b"authorization", b"Bearer theirs"),
            (b"cookie", b"c"),
            (b"connection", b"keep-alive, X-Hop"),
            (b"x-hop", b"1"),
            (b"te", b"trailers"),  # codespell:ignore te
            (b"transfer-encoding", b"chunked"),
            (b"accept-encoding", b"gzip"),
            (b"x-conversation-id", b"7"),
            (b"x-hearth-caller", b"forged"),
            (b"user-agent", b"me"),
            (b"traceparent", b"00-1"),
        ]
    )

    head = request_head(
        b"/v1/chat/completions",
        b"Host: h:1\r\nAuthorization: Bearer ours\r\n",
        told.lines,
        b"req_1",
        b"application/json",
        5,
    )

    assert head == (
        b"POST /v1/chat/completions HTTP/1.1\r\n"
        b"Host: h:1\r\nAuthorization: Bearer ours\r\n"
        b"user-agent: me\r\ntraceparent: 00-1\r\n"
        b"X-Request-Id: req_1\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n"
    )


@pytest.mark.parametrize("given", [b"abc-1.2:3_x", b"x" * 128])
def test_sane_request_id_of_the_caller_is_kept(given: bytes) -> None:
    """So one id follows a request through all services."""
    assert request_id({b"x-request-id": given}) == given


@pytest.mark.parametrize("given", [b"", b"x" * 129, b"two words", b"\xff", b'"quoted"'])
def test_other_request_ids_are_replaced(given: bytes) -> None:
    """They stand in our logs and headers."""
    assert request_id({b"x-request-id": given}).startswith(b"req_")
