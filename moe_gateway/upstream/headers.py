"""The headers of a request on their way to a server, and those of its answer on their way back."""

import re
from random import getrandbits
from typing import Final

from moe_gateway.errors import Headers
from moe_gateway.upstream.connection import Connection

SANE_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")

HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection trailer"
    b" transfer-encoding upgrade te".split()  # codespell:ignore te
)
"""RFC 9110, section 7.6.1."""

NOT_SENT_ON: Final = HOP_BY_HOP | frozenset(
    b"host authorization cookie content-length content-type expect accept-encoding x-request-id"
    b" x-conversation-id".split()
)
"""`X-Conversation-Id` makes llama-server go on generating when the caller has hung up.
`Accept-Encoding`: the gateway reads the usage off the answer. The rest it says itself."""

NOT_PASSED_BACK: Final = HOP_BY_HOP | frozenset(
    b"content-length content-type date retry-after retry-after-ms server set-cookie x-request-id"
    b" openai-processing-ms x-hearth-expert x-hearth-model x-hearth-route x-hearth-caller".split()
)


def request_id(headers: Headers) -> bytes:
    """The caller's own, when it is a sane one."""
    for name, value in headers:
        if name == b"x-request-id" and SANE_ID.fullmatch(value):
            return value
    return b"req_%024x" % getrandbits(96)


def request_head(
    path: bytes, fixed: bytes, headers: Headers, request_id: bytes, kind: bytes, length: int
) -> bytes:
    """The head of the request to a server: the caller's headers, without what is not for it.
    `kind` is the content type of the body."""
    lines, named = [], frozenset[bytes]()
    for name, value in headers:
        if name not in NOT_SENT_ON:
            lines.append((name, value))
        elif name == b"connection":
            named |= {token.strip().lower() for token in value.split(b",")}
    sent = [
        b"%s: %s\r\n" % line
        for line in lines
        if line[0] not in named and not line[0].startswith(b"x-hearth-")
    ]
    return (
        b"POST %s HTTP/1.1\r\n%s%s"
        b"X-Request-Id: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    ) % (path, fixed, b"".join(sent), request_id, kind, length)


def passed_back(connection: Connection) -> Headers:
    """The headers that the caller gets of a server's answer, without its content type."""
    return [
        (name, value)
        for name, value in connection.headers
        if name not in NOT_PASSED_BACK and not name.startswith(b"access-control-")
    ]
