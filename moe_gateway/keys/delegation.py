"""On whose behalf an agent asks back: the gateway tells it, signed, and it passes that on.

So budgets, fairness and the guard against endless recursion hold for the person who asked first.
The agent's key, which the gateway shows it, is the secret of the signature (HMAC, RFC 2104): who
has it may ask anything anyway, and who has not can claim to be nobody else.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

PURPOSE: Final = b"hearth caller 1:"
"""So that what the same secret signs elsewhere is no caller here."""


@dataclass(frozen=True, slots=True)
class Behalf:
    """`name` is that of the key that asked first; `depth` how many agents stand between."""

    name: str
    depth: int

    def signed(self, secret: bytes) -> bytes:
        """The header's value: `name;depth;signature`."""
        told = b"%s;%d" % (quote(self.name, safe="").encode(), self.depth)
        return b"%s;%s" % (told, _signature(told, secret))


def read(value: bytes, secrets: Iterable[bytes]) -> Behalf | None:
    """What a header says; None when none of the secrets has signed it."""
    told, _, signature = value.rpartition(b";")
    if not any(hmac.compare_digest(_signature(told, one), signature) for one in secrets):
        return None
    name, _, depth = told.rpartition(b";")
    return Behalf(unquote(name.decode("ascii")), int(depth))


def _signature(told: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, PURPOSE + told, "sha256").hexdigest().encode()
