"""`/api/conversations`: what was talked about, as far as its history is kept here."""

import asyncio
import unicodedata
from typing import Annotated, Self
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
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
    """What a person says, and the model that answers: the agent or a workflow.

    `instead_of` is the run of a turn that this one is another version of: with a text an edited
    question, without one the same question again.
    """

    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(None, min_length=1)
    model: str = AGENT
    instead_of: str | None = Field(None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.text is None and self.instead_of is None:
            raise ValueError("give a text, or the turn to answer once more")
        return self


class StartedTurn(BaseModel):
    run: str


class Change(BaseModel):
    """What is to be different: the title, on one line; whether it is listed before the others; the
    run of the version of a turn that is shown.
    """

    model_config = ConfigDict(extra="forbid")

    title: str | None = Field(None, min_length=1, max_length=200)
    pinned: bool | None = None
    shown: str | None = Field(None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError("give a title, pinned or shown")
        return self

    @field_validator("title")
    @classmethod
    def _one_line(cls, title: str | None) -> str | None:
        """Join lines by spaces; refuse a title without a visible character."""
        if title is None:
            return None
        line = " ".join(title.split())
        if not any(unicodedata.category(each)[0] in "LNPS" for each in line):
            raise ValueError("a title needs a visible character")
        if any(unicodedata.category(each) == "Cc" for each in line):
            raise ValueError("a title has no control characters")
        return line


class BranchPoint(BaseModel):
    """The run of the last turn that the new conversation has, too."""

    model_config = ConfigDict(extra="forbid")

    run: str = Field(min_length=1, max_length=200)


@router.get("")
async def list_conversations(
    parts: WithParts,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    text: Annotated[str, Query(max_length=200)] = "",
    behalf: Behalf = "",
) -> ConversationList:
    """Pinned ones, then the latest; with `text`, those that have all of its words, or words that
    begin so, in their title or their turns. Until it is renamed, the title is what was said first.
    """
    find, owner = parts.conversations.find, owner_of(behalf)
    return ConversationList(conversations=await asyncio.to_thread(find, text, limit, owner=owner))


@router.post("/{conversation:path}/turns", status_code=201)
async def add_turn(
    conversation: Name, body: NewTurn, request: Request, parts: WithParts, behalf: Behalf = ""
) -> StartedTurn:
    """Start a run that answers; it continues when the caller disconnects. Follow its events."""
    text = body.text
    if body.instead_of is not None:
        own, service = owner_of(behalf), parts.conversations
        asked_before = service.request_of(conversation, body.instead_of, owner=own)
        text = asked_before if text is None else text
    said = Message.model_validate({"role": "user", "content": text})
    asked = AgentRequest(model=body.model, messages=[said], conversation=conversation)
    return StartedTurn(run=await start(asked, request, parts, instead_of=body.instead_of))


@router.post("/{conversation:path}/branch", status_code=201)
async def branch_conversation(
    conversation: Name, body: BranchPoint, parts: WithParts, behalf: Behalf = ""
) -> ConversationSummary:
    """Create a conversation that begins with its turns up to a run, and goes its own way then."""
    return await parts.conversations.branch(conversation, body.run, owner=owner_of(behalf))


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
    """The last of its turns that are shown, of every status and the oldest first; only those after
    the run `after`, if that is one of them.
    """
    owner = owner_of(behalf)
    return parts.conversations.show(conversation, limit=limit, after=after, owner=owner)


@router.patch("/{conversation:path}")
async def change_conversation(
    conversation: Name, body: Change, parts: WithParts, behalf: Behalf = ""
) -> ConversationSummary:
    """Rename it, pin it, or show another version of a turn."""
    return await parts.conversations.change(
        conversation, **body.model_dump(), owner=owner_of(behalf)
    )


@router.delete("/{conversation:path}")
async def delete_conversation(
    conversation: Name, parts: WithParts, behalf: Behalf = ""
) -> DeletedConversation:
    """Stop its unfinished runs and remove all of its runs; notes that were saved in them stay."""
    return await parts.conversations.delete(conversation, owner=owner_of(behalf))
