"""Addresses that callers write into a conversation.

An engine with vision downloads images that are named by their address (llama.cpp, function
`handle_media` of its server: `http…` and `file://`, for images, audio and video). The request then
comes from inside the home network, behind its firewall, for every holder of a key: server-side
request forgery (CWE-918). So images must be sent as data, unless a setting permits addresses.
"""

import string
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import orjson

from hearth.service.http_errors import invalid_json
from moe_gateway.errors import address_named

SIGNS: Final = (b'url"', b'"input_', b'"image"', b'"audio"', b'"video"', b"\\u00")
"""Each body with a part that can contain an address contains one of these; the last one covers
names that are written with escapes."""

WORDS: Final = frozenset(("text", "refusal", "filename", "title"))
"""Fields with text for people; engines do not load addresses in them."""

LOOKED_AT: Final = 64
"""Characters of each text that are checked: a scheme is at its beginning."""

BASE64: Final = f"{string.ascii_letters}{string.digits}+/={string.whitespace}".encode()
"""Its alphabet (RFC 4648, section 4), and what breaks its lines."""


class _Messages(msgspec.Struct):
    messages: msgspec.Raw = msgspec.Raw(b"null")


_MESSAGES = msgspec.json.Decoder(_Messages)


def refuse_addresses(body: bytes) -> None:
    """Raises `Refused` (400) when a part of a message names an address that would be fetched."""
    place = address_in(body)
    if place is not None:
        raise address_named(place)


def address_in(body: bytes) -> str | None:
    """The place of the first part that names one. Raises `Refused` for what cannot be read."""
    # without a second bracket no message has parts; then the marker is in a text
    if body.find(b"[", body.find(b"[") + 1) < 0 or not any(sign in body for sign in SIGNS):
        return None
    try:
        messages = orjson.loads(bytes(_MESSAGES.decode(body).messages))
    except (msgspec.DecodeError, orjson.JSONDecodeError) as error:
        raise invalid_json(str(error).rstrip(".")) from error
    found = (place for place, part in _parts(messages) if any(map(is_address, _texts(part))))
    return next(found, None)


def is_address(text: str) -> bool:
    """Return whether an engine would load it. For llama.cpp, everything that begins with `http`
    is an address. Base64 of an MP3 frame begins with `//`, as an address without a scheme does."""
    begin = text[:LOOKED_AT].strip().lower()
    if begin.startswith("data:"):
        return False
    if begin.startswith("//"):  # As a whole: `//aaaa…@10.0.0.1/` has its host where it likes.
        return bool(text.encode().translate(None, delete=BASE64))
    return begin.startswith(("http", "file:")) or "://" in begin


def _parts(messages: Any) -> Iterator[tuple[str, Any]]:
    for n, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        for m, part in enumerate(content if isinstance(content, list) else ()):
            yield f"messages[{n}].content[{m}]", part


def _texts(part: Any) -> Iterator[str]:
    """Every text of a part that is not for reading."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for one in part:
            yield from _texts(one)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name not in WORDS:
                yield from _texts(value)
