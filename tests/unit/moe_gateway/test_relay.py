"""Headers, on their way to the server and back."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from moe_gateway.relay import request_head, request_id, waits


def test_servers_get_the_callers_headers_without_what_is_not_for_them() -> None:
    """The caller's key, hop-by-hop headers and `X-Conversation-Id` end at the gateway."""
    head = request_head(
        b"/v1/chat/completions",
        b"Host: h:1\r\nAuthorization: Bearer ours\r\n",
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
        ],
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
    assert request_id([(b"x-request-id", given)]) == given


@pytest.mark.parametrize("given", [b"", b"x" * 129, b"two words", b"\xff", b'"quoted"'])
def test_other_request_ids_are_replaced(given: bytes) -> None:
    """They stand in our logs and headers."""
    assert request_id([(b"x-request-id", given)]).startswith(b"req_")


@pytest.mark.parametrize(
    ("name", "told", "passed"),
    [
        (b"retry-after", b"3", b"3"),
        (b"retry-after", b"3600", b"60"),
        (b"retry-after", b"1e30", b"60"),
        (b"retry-after", b"0.2", b"1"),
        (b"retry-after", b"-5", b"0"),
        (b"retry-after-ms", b"2500", b"2500"),
        (b"retry-after-ms", b"3600000", b"60000"),
        (b"retry-after-ms", b"-1", b"0"),
        (b"retry-after", b"Sun, 22 Nov 2020 10:00:00 GMT", b"0"),
        (b"retry-after", b"nan", None),
        (b"retry-after", b"inf", None),
        (b"retry-after", b"soon", None),
        (b"retry-after-ms", b"Sun, 22 Nov 2099 10:00:00 GMT", None),
        (b"x-other", b"3600", None),
    ],
)
def test_no_server_sends_a_client_to_sleep(name: bytes, told: bytes, passed: bytes | None) -> None:
    """openai-node sleeps an hour, if it is told an hour, and its program looks dead."""
    assert waits([(name, told)]) == ([] if passed is None else [(name, passed)])


def test_date_to_wait_for_becomes_seconds() -> None:
    """The server's clock and the client's need not agree."""
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True).encode()

    assert waits([(b"retry-after", later)]) == [(b"retry-after", b"60")]
