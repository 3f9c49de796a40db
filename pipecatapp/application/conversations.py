"""Conversations: list them, show one, and let a caller go on with one."""

from pydantic import BaseModel

from pipecatapp.application.engine import Ledger
from pipecatapp.records.conversations import (
    ConversationSummary,
    Turn,
    Unseen,
    claim,
    conversations,
    is_known,
    may_read,
    turns,
    unseen,
)

__all__ = [
    "ConversationDetail",
    "ConversationService",
    "ConversationSummary",
    "UnknownConversation",
]


class UnknownConversation(LookupError):
    """No conversation has this id, or it belongs to another caller."""


class ConversationDetail(BaseModel):
    """The last turns of a conversation, and what its model no longer saw."""

    id: str
    turns: list[Turn]
    unseen: Unseen | None = None


class ConversationService:
    """The conversations in one ledger. `owner` is the name of a key, empty for the built-in one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def list(self, limit: int, owner: str = "") -> list[ConversationSummary]:
        """The newest first; all of them for the built-in key."""
        return conversations(self._ledger.read, limit, owner)

    def show(self, id: str, *, limit: int, after: str = "", owner: str = "") -> ConversationDetail:
        """The turns after the run `after`, oldest first. Raises `UnknownConversation`."""
        read = self._ledger.read
        if not (is_known(read, id) and may_read(read, id, owner)):
            raise UnknownConversation(f"There is no conversation {id!r}.")
        shown = turns(read, id, limit, after=after)
        return ConversationDetail(id=id, turns=shown, unseen=unseen(read, id))

    async def claim(self, id: str, owner: str, title: str) -> bool:
        """Let `owner` go on with a conversation, or create it; False if another owns it."""
        return await claim(self._ledger, id, owner, title)
