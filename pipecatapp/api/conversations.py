"""`/api/conversations`: what was talked about, as far as its history is kept here."""

import asyncio
import unicodedata
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.responses import PlainTextResponse

from hearth.openai_api.chat import Message
from pipecatapp.api.access import known_caller
from pipecatapp.api.openai.chat import AgentRequest, start
from pipecatapp.api.owners import Behalf
from pipecatapp.api.parts import WithParts
from pipecatapp.application.callers import owner_of
from pipecatapp.application.conversations import (
    ConversationDetail,
    ConversationSummary,
    DeletedConversation,
    ExportFormat,
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


class NewTitle(BaseModel):
    """The title of a conversation, on one line."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=200)

    @field_validator("title")
    @classmethod
    def _one_line(cls, title: str) -> str:
        """Join lines by spaces; refuse a title without a visible character."""
        line = " ".join(title.split())
        if not any(unicodedata.category(each)[0] in "LNPS" for each in line):
            raise ValueError("a title needs a visible character")
        if any(unicodedata.category(each) == "Cc" for each in line):
            raise ValueError("a title has no control characters")
        return line


@router.get("")
async def list_conversations(
    parts: WithParts,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    text: Annotated[str, Query(max_length=200)] = "",
    behalf: Behalf = "",
) -> ConversationList:
    """The latest first; with `text`, those that have all of its words, or words that begin so, in
    their title or their turns. Until it is renamed, the title is what was said first.
    """
    find, owner = parts.conversations.find, owner_of(behalf)
    return ConversationList(conversations=await asyncio.to_thread(find, text, limit, owner=owner))


@router.post("/{conversation:path}/turns", status_code=201)
async def add_turn(
    conversation: Name, body: NewTurn, request: Request, parts: WithParts
) -> StartedTurn:
    """Start a run that answers; it continues when the caller disconnects. Follow its events."""
    said = Message.model_validate({"role": "user", "content": body.text})
    asked = AgentRequest(model=body.model, messages=[said], conversation=conversation)
    return StartedTurn(run=await start(asked, request, parts))


@router.get("/{conversation:path}/export")
async def export_conversation(
    conversation: Name, parts: WithParts, format: ExportFormat = "markdown", behalf: Behalf = ""
) -> PlainTextResponse:
    """All of its turns as a file: `format` is `markdown` or `json`."""
    file = await parts.conversations.export(conversation, format, owner=owner_of(behalf))
    headers = {"content-disposition": _attachment(file.name)}
    return PlainTextResponse(file.text, media_type=file.media_type, headers=headers)


def _attachment(name: str) -> str:
    """Return the `Content-Disposition` of a file, whose name may have any letters (RFC 6266)."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = plain if plain.rpartition(".")[0] else f"conversation{plain}"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


@router.get("/{conversation:path}")
async def show_conversation(
    conversation: Name,
    parts: WithParts,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    after: Annotated[str, Query(max_length=200)] = "",
    behalf: Behalf = "",
) -> ConversationDetail:
    """Its last turns of every status, the oldest first; only those after the run `after`."""
    owner = owner_of(behalf)
    return parts.conversations.show(conversation, limit=limit, after=after, owner=owner)


@router.patch("/{conversation:path}")
async def rename_conversation(
    conversation: Name, body: NewTitle, parts: WithParts, behalf: Behalf = ""
) -> ConversationSummary:
    """Give it another title."""
    return await parts.conversations.rename(conversation, body.title, owner=owner_of(behalf))


@router.delete("/{conversation:path}")
async def delete_conversation(
    conversation: Name, parts: WithParts, behalf: Behalf = ""
) -> DeletedConversation:
    """Stop its unfinished runs and remove all of its runs; notes that were saved in them stay."""
    return await parts.conversations.delete(conversation, owner=owner_of(behalf))
