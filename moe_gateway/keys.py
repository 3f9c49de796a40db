"""Who may call."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Self

from hearth.service.settings import read_key

BEARER = b"bearer "


class Keyring:
    """The keys of this gateway, kept as SHA-256 digests.

    Looking a digest up tells nothing about how near a guess came, so no slower comparison is
    needed. Keys demand a header that no foreign page can send along, so the gateway needs no check
    of the Host header against DNS rebinding.
    """

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        """`keys` are pairs of name and key."""
        self._names = {sha256(key.encode()).digest(): name for name, key in keys}

    @classmethod
    def from_files(cls, paths: Iterable[Path]) -> Self:
        """One key a file, named like the file; `SettingsError` when one cannot be read."""
        return cls((path.name, read_key(path)) for path in paths)

    def name_of(self, authorization: bytes) -> str | None:
        """The name of the key in an `Authorization` header; None when it is none of ours."""
        if authorization[:7].lower() != BEARER:
            return None
        return self._names.get(sha256(authorization[7:].strip()).digest())
