"""The keys of an instance: made once, readable by their owner only."""

import os
import secrets
from pathlib import Path

PREFIX = "sk-hearth-"
PRIVATE = 0o600


def ensure_key(path: Path) -> None:
    """Create the key file if it is missing, otherwise restrict its permissions.

    The file is created atomically: it is written under another name and then renamed. The caller
    holds the instance lock, so no other process creates one meanwhile.
    """
    if path.exists():
        path.chmod(PRIVATE)
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(f"{PREFIX}{secrets.token_hex(24)}\n")
        stream.flush()
        os.fsync(stream.fileno())
    draft.rename(path)


def is_private(path: Path) -> bool:
    """Return whether only the owner can read or write this file."""
    return path.stat().st_mode & 0o077 == 0
