"""Secrets in the entry of an MCP server: `${kept:name}`, `${env:NAME}` or `${file:/path}`.

The values are read when the server is started or connected. They are sent to the server only, and
are replaced by `***` in every text that comes from it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from pipecatapp.records.secrets import SecretMissing, Secrets

REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")
_LOCATION: Final = re.compile(r"kept:[a-z][a-z0-9_-]*|(?:env:)?[A-Za-z_][A-Za-z0-9_]*|file:/.+")
HIDDEN: Final = "***"
T = TypeVar("T")
SHORTEST: Final = 4
"""Characters of a value that is hidden; a shorter one would replace parts of other words."""


@dataclass(frozen=True)
class Resolved:
    """Values of an entry with their secrets, and the secrets alone."""

    values: Mapping[str, str]
    secrets: frozenset[str] = frozenset()

    def hide(self, value: T) -> T:
        """Return text, bytes or JSON with `***` instead of each secret."""
        return cast("T", self._hidden(value)) if self.secrets else value

    def _hidden(self, value: object) -> object:
        if isinstance(value, str | bytes):
            for secret in sorted(self.secrets, key=len, reverse=True):
                value = _replaced(value, secret)
            return value
        if isinstance(value, dict):
            return {self._hidden(key): self._hidden(item) for key, item in value.items()}
        return [self._hidden(item) for item in value] if isinstance(value, list) else value


def _replaced(value: str | bytes, secret: str) -> str | bytes:
    if isinstance(value, bytes):
        return value.replace(secret.encode(), HIDDEN.encode())
    return value.replace(secret, HIDDEN)


def invalid_reference(value: str) -> str | None:
    """Return the first reference that is not valid; None if all are."""
    found = REFERENCE.findall(value)
    return next((one for one in found if not _LOCATION.fullmatch(one)), None)


def resolve(values: Mapping[str, str], secrets: Secrets) -> Resolved:
    """Return the values with their secrets; raises `SecretMissing`."""
    found: set[str] = set()

    def value_of(match: re.Match[str]) -> str:
        place = match[1] if ":" in match[1] else f"env:{match[1]}"
        value = secrets.value(place)
        if not value.isprintable():
            raise SecretMissing(f"the value at {place} contains a line break or control character")
        found.add(value)
        return value

    told = {name: REFERENCE.sub(value_of, value) for name, value in values.items()}
    return Resolved(told, frozenset(one for one in found if len(one) >= SHORTEST))
