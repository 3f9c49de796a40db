"""The built-in keys of an instance: created once, readable by their owner only."""

import secrets
from pathlib import Path

from hearth.files import write_atomic

PREFIX = "sk-hearth-"
PRIVATE = 0o600


def ensure_key(path: Path) -> None:
    """Create the key file if it is missing, otherwise restrict its permissions.

    The caller holds the instance lock, so no other process creates one meanwhile.
    """
    if path.exists():
        path.chmod(PRIVATE)
        return
    write_atomic(path, f"{PREFIX}{secrets.token_hex(24)}\n", mode=PRIVATE)


def is_private(path: Path) -> bool:
    """Return whether only the owner can read or write this file."""
    return path.stat().st_mode & 0o077 == 0
