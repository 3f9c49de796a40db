"""`/api/conversations`: stored conversations."""

import asyncio
import unicodedata
from typing import Annotated, Self
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from starlette.responses import PlainTextResponse, Response

from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import Behalf
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.api.turns import NewTurn, start_turn
from pipecatapp.application.callers import owner_of
from pipecatapp.application.conversations import (
    ConversationDetail,
    ConversationSettings,
    ConversationSummary,
    DeletedConversation,
    ExportFormat,
)

router = api_router("/api/conversations", dependencies=[Depends(known_caller)])

Name = Annotated[str, Path(min_length=1, max_length=200)]


class ConversationList(BaseModel):
    """`total`: how many conversations there are without the limit."""

    total: int
    conversations: list[ConversationSummary]


class StartedTurn(BaseModel):
    run: str


class Change(BaseModel):
    """Fields to change: the title, on one line; whether it is pinned; the settings of its turns;
    the run of the version of a turn that is shown.
    """

    model_config = ConfigDict(extra="forbid")

    title: str | None = Field(None, min_length=1, max_length=200)
    pinned: bool | None = None
    settings: ConversationSettings | None = None
    shown: str | None = Field(None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_dump(exclude_none=True):
            raise ValueError("give a title, pinned, settings or shown")
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
    """Return pinned conversations, then the latest; with `text`, those that contain all of its
    words, or words that begin with them, in their title or their turns. The default title is the
    first question.
    """
    find, owner = parts.conversations.find, owner_of(behalf)
    found, total = await asyncio.to_thread(find, text, limit, owner=owner)
    return ConversationList(conversations=found, total=total)


@router.post("/{conversation:path}/turns", status_code=201)
async def add_turn(
    conversation: Name, body: NewTurn, request: Request, parts: WithParts, behalf: Behalf = ""
) -> StartedTurn:
    """Start a run that answers; it continues when the caller disconnects. Follow its events."""
    return StartedTurn(run=await start_turn(conversation, body, request, parts, owner_of(behalf)))


@router.get("/{conversation:path}/turns/{run}/attachments/{number}")
async def show_attachment(
    conversation: Name,
    run: str,
    number: Annotated[int, Path(ge=0)],
    parts: WithParts,
    behalf: Behalf = "",
) -> Response:
    """A file or an image of a turn; the number is its place among them, from 0."""
    service, owner = parts.conversations, owner_of(behalf)
    found = await asyncio.to_thread(service.attachment, conversation, run, number, owner=owner)
    return Response(found.body, media_type=found.media_type)


@router.post("/{conversation:path}/branch", status_code=201)
async def branch_conversation(
    conversation: Name, body: BranchPoint, parts: WithParts, behalf: Behalf = ""
) -> ConversationSummary:
    """Create a conversation that starts with its turns up to a run, and is independent
    afterwards."""
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
    show, owner = parts.conversations.show, owner_of(behalf)
    return await asyncio.to_thread(show, conversation, limit=limit, after=after, owner=owner)


@router.patch("/{conversation:path}")
async def change_conversation(
    conversation: Name, body: Change, parts: WithParts, behalf: Behalf = ""
) -> ConversationSummary:
    """Rename it, pin it, set how it is answered, or show another version of a turn."""
    return await parts.conversations.change(conversation, **dict(body), owner=owner_of(behalf))


@router.delete("/{conversation:path}")
async def delete_conversation(
    conversation: Name, parts: WithParts, behalf: Behalf = ""
) -> DeletedConversation:
    """Stop its unfinished runs and remove all of its runs; notes that were saved in them stay."""
    return await parts.conversations.delete(conversation, owner=owner_of(behalf))
