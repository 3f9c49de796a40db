"""Addresses of pages: how a person or a model writes them, and how the browser does."""

import re
from typing import Final
from urllib.parse import urlsplit

from pipecatapp.tools.web.addresses import SCHEMES, parsed, plain_host

SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)")
"""The beginning of an address with a scheme; `localhost:8000` has none."""


def page_address(text: str) -> str:
    """Return a complete http(s) address; raises `AddressRefused` for any other."""
    text = text.strip()
    if SCHEME.match(text) is None:
        text = f"https://{text}"
    parsed(text)
    return text


def end_point(address: str) -> tuple[str, int]:
    """Return host and port of an address that the browser or `page_address` gave.

    They are empty and 0 for an address without a host, such as `about:blank`.
    """
    parts = urlsplit(address)
    return plain_host(parts.hostname or ""), parts.port or SCHEMES.get(parts.scheme, 0)
