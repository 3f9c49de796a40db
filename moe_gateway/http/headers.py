"""The headers of a request on their way to a server, and those of its answer on their way back."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from moe_gateway.errors import Headers
from moe_gateway.http.connection import Connection

_bits: Final = Random().getrandbits
"""A private generator: other code may seed or observe that of `random`."""

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
"""`X-Conversation-Id` makes llama-server continue after the caller has disconnected.
`Accept-Encoding` would hide the usage from the gateway. The gateway sets the others itself."""

NOT_PASSED_BACK: Final = HOP_BY_HOP | frozenset(
    b"content-length content-type date retry-after retry-after-ms server set-cookie x-request-id"
    b" openai-processing-ms x-hearth-expert x-hearth-model x-hearth-route x-hearth-caller".split()
)


SESSION_HEADERS: Final = (
    *(b"x-session-id", b"x-session-affinity"),
    *(b"x-openwebui-chat-id", b"x-claude-code-session-id"),
)
"""How callers name the conversation that a request belongs to."""

CALLER_HEADER: Final = b"x-hearth-caller"
"""The caller that an agent acts for, signed by the gateway (see `keys.delegation`)."""

TRACEPARENT: Final = b"traceparent"

DOMAIN: Final = b"x-hearth-domain"
LANGUAGE: Final = b"x-hearth-language"
WAKE: Final = b"x-hearth-wake"

LOOKED_AT: Final = frozenset(
    (
        b"authorization",
        b"connection",
        b"content-type",
        b"x-api-key",
        b"x-request-id",
        CALLER_HEADER,
        DOMAIN,
        LANGUAGE,
        WAKE,
        *SESSION_HEADERS,
    )
)

LINE: Final = b"%s: %s\r\n"

_LOOKED_AT, _BOTH = 1, 2
_FATES: Final = (
    dict.fromkeys(NOT_SENT_ON, 0)
    | dict.fromkeys(LOOKED_AT, _LOOKED_AT)
    | dict.fromkeys(SESSION_HEADERS, _BOTH)
)
"""Action for a header: drop it, read it, or read and forward it. Headers that are not listed are
only forwarded."""


@dataclass(slots=True)
class ParsedHeaders:
    """The headers of a request."""

    own: dict[bytes, bytes]
    """Headers that the gateway reads, by name; if a name is repeated, the last value."""
    lines: bytes
    """Header lines to forward to the server."""


def heard(headers: Headers) -> ParsedHeaders:
    """Read the headers of a caller, whose names are in small letters."""
    own, lines = {}, []
    for header in headers:
        name = header[0]
        fate = _FATES.get(name)
        if fate is None:
            if not name.startswith(b"x-hearth-"):
                lines.append(LINE % header)
        elif fate:
            own[name] = header[1]
            if fate == _BOTH:
                lines.append(LINE % header)
    if b"connection" in own:
        named = _named(headers)
        lines = [LINE % one for one in headers if one[0] not in named and _goes_on(one[0])]
    return ParsedHeaders(own, b"".join(lines))


def _goes_on(name: bytes) -> bool:
    return _FATES.get(name, _BOTH) == _BOTH and not name.startswith(b"x-hearth-")


def _named(headers: Headers) -> set[bytes]:
    """Return the headers that the caller declares as hop-by-hop (RFC 9110, section 7.6.1)."""
    told = b",".join([value for name, value in headers if name == b"connection"])
    return {token.strip().lower() for token in told.split(b",")}


def session_of(own: Mapping[bytes, bytes]) -> bytes:
    """Return the caller's id of the conversation; empty if the request has none."""
    return next((own[name] for name in SESSION_HEADERS if own.get(name)), b"")


def request_id(own: Mapping[bytes, bytes]) -> bytes:
    """The caller's own, when it is a sane one."""
    told = own.get(b"x-request-id")
    if told is not None and SANE_ID.fullmatch(told):
        return told
    return b"req_%024x" % _bits(96)


def request_head(
    path: bytes, fixed: bytes, lines: bytes, request_id: bytes, kind: bytes, length: int
) -> bytes:
    """The head of the request to a server. `kind` is the content type of the body, `lines` are
    those of the caller's headers."""
    return (
        b"POST %s HTTP/1.1\r\n%s%s"
        b"X-Request-Id: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    ) % (path, fixed, lines, request_id, kind, length)


def passed_back(connection: Connection) -> Headers:
    """The headers that the caller gets of a server's answer, without its content type."""
    return [
        (name, value)
        for name, value in connection.headers
        if name not in NOT_PASSED_BACK and not name.startswith(b"access-control-")
    ]
