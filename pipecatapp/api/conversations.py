"""`/api/conversations`: what was talked about, as far as its history is kept here."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

from pipecatapp.api.access import known_caller
from pipecatapp.api.errors import Refused
from pipecatapp.api.parts import WithParts
from pipecatapp.library.runs.conversations import ConversationSummary, Turn, conversations, turns

router = APIRouter(prefix="/api/conversations", dependencies=[Depends(known_caller)])


class ConversationList(BaseModel):
    conversations: list[ConversationSummary]


class ConversationPage(BaseModel):
    id: str
    turns: list[Turn]


@router.get("")
async def list_conversations(
    parts: WithParts, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> ConversationList:
    """The latest first; a title is what was said first."""
    return ConversationList(conversations=conversations(parts.runs.engine.ledger.read, limit))


@router.get("/{conversation}")
async def show_conversation(
    conversation: str, parts: WithParts, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> ConversationPage:
    """Its last turns, the oldest first."""
    found = turns(parts.runs.engine.ledger.read, conversation, limit)
    if not found:
        raise Refused(404, "conversation_not_found", f"There is no conversation {conversation!r}.")
    return ConversationPage(id=conversation, turns=found)
