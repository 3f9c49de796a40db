"""The caller that an agent acts for: a signed header that the agent passes on in its own requests.

Budgets, fairness and the limit of recursion thus apply to the first caller. The key with which the
gateway calls the agent is the secret of the signature (HMAC, RFC 2104): only its owners, which may
send any request anyway, can name another caller.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

PURPOSE: Final = b"hearth caller 1:"
"""Separates these signatures from others with the same secret."""


@dataclass(frozen=True, slots=True)
class Delegation:
    """`name`: the key of the first caller; `depth`: the number of agents between."""

    name: str
    depth: int

    def signed(self, secret: bytes) -> bytes:
        """Return the value of the header: `name;depth;signature`."""
        value = b"%s;%d" % (quote(self.name, safe="").encode(), self.depth)
        return b"%s;%s" % (value, _signature(value, secret))


def read(value: bytes, secrets: Iterable[bytes]) -> Delegation | None:
    """Parse a header; returns None if none of the secrets has signed it."""
    told, _, signature = value.rpartition(b";")
    if not any(hmac.compare_digest(_signature(told, one), signature) for one in secrets):
        return None
    name, _, depth = told.rpartition(b";")
    return Delegation(unquote(name.decode("ascii")), int(depth))


def _signature(told: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, PURPOSE + told, "sha256").hexdigest().encode()
