"""`/api/conversations`: what was talked about, as far as its history is kept here."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from hearth.openai_api.chat import Message
from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.chat import AgentRequest, start
from pipecatapp.api.owners import Behalf
from pipecatapp.api.parts import WithParts
from pipecatapp.application.callers import owner_of
from pipecatapp.application.conversations import (
    ConversationDetail,
    ConversationSummary,
    UnknownConversation,
)
from pipecatapp.application.registry import AGENT

router = APIRouter(prefix="/api/conversations", dependencies=[Depends(known_caller)])

Name = Annotated[str, Path(min_length=1, max_length=200)]


class ConversationList(BaseModel):
    conversations: list[ConversationSummary]


class NewTurn(BaseModel):
    """What a person says, and the model that answers: the agent or a workflow."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1)
    model: str = AGENT


class StartedTurn(BaseModel):
    run: str


@router.get("")
async def list_conversations(
    parts: WithParts, limit: Annotated[int, Query(ge=1, le=500)] = 100, behalf: Behalf = ""
) -> ConversationList:
    """The latest first; a title is what was said first."""
    return ConversationList(conversations=parts.conversations.list(limit, owner_of(behalf)))


@router.post("/{conversation:path}/turns", status_code=201)
async def add_turn(
    conversation: Name, body: NewTurn, request: Request, parts: WithParts
) -> StartedTurn:
    """Start a run that answers; it continues when the caller disconnects. Follow its events."""
    said = Message.model_validate({"role": "user", "content": body.text})
    asked = AgentRequest(model=body.model, messages=[said], conversation=conversation)
    return StartedTurn(run=await start(asked, request, parts))


@router.get("/{conversation:path}")
async def show_conversation(
    conversation: Name,
    parts: WithParts,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    after: Annotated[str, Query(max_length=200)] = "",
    behalf: Behalf = "",
) -> ConversationDetail:
    """Its last turns of every status, the oldest first; only those after the run `after`."""
    try:
        owner = owner_of(behalf)
        return parts.conversations.show(conversation, limit=limit, after=after, owner=owner)
    except UnknownConversation as error:
        raise Refused(404, "conversation_not_found", str(error)) from error
