"""Signatures; filled in by the next commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class LedgerTooNew(Exception):
    """A newer Hearth wrote this ledger. Start that version, or point this one at another state directory."""


class LedgerBusy(Exception):
    """Another process executes runs in this ledger. Stop it, or speak to it over HTTP."""


class LedgerFailed(Exception):
    """The ledger could not be written. Make room on the disk; unfinished runs resume at the next start."""


@dataclass(frozen=True)
class Note:
    """Something kept across conversations."""

    id: str
    at: str
    text: str
    tags: tuple[str, ...]


class Ledger:
    def __init__(self, path: Path) -> None: ...

    def close(self) -> None: ...

    async def save_note(self, text: str, tags: Sequence[str] = ()) -> Note: ...

    def find_notes(self, query: str, limit: int = 10) -> list[Note]: ...
