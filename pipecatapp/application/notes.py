"""Notes that models save across conversations: find and delete them."""

from pipecatapp.application.engine import Ledger
from pipecatapp.records import notes
from pipecatapp.records.notes import Note

__all__ = ["Note", "NoteService"]


class NoteService:
    """The notes in one ledger. `owner` is the name of a key, empty for the built-in one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def find(self, query: str, limit: int, *, owner: str = "") -> list[Note]:
        """Notes that hold a word of the query, best first; without words the newest."""
        return notes.find(self._ledger, query, limit, owner=owner)

    def get(self, id: str, *, owner: str = "") -> Note | None:
        """The note with this id; None if there is none or another caller owns it."""
        return notes.get(self._ledger, id, owner=owner)

    def number(self, query: str, *, owner: str = "") -> int:
        """How many notes hold a word of the query; without words, of all."""
        return notes.number(self._ledger, query, owner=owner)

    async def delete(self, id: str, *, owner: str = "") -> bool:
        """Delete a note; False if there is none or another caller owns it."""
        return await notes.delete(self._ledger, id, owner=owner)
