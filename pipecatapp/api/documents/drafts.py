"""`/api/drafts`: workflows that are being edited, with undo and redo, before they are saved.

Each change carries the ETag of the text that it is meant for. A draft may be invalid: its
diagnostics are part of the response.
"""

from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from pipecatapp.api.access import known_caller
from pipecatapp.api.documents.texts import Name, Seen, WithDocuments, seen_missing
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.documents.drafts import Draft, DraftService, DraftSummary
from pipecatapp.application.documents.editing import Operation
from pipecatapp.application.documents.service import Edited

router = api_router("/api/drafts", dependencies=[Depends(known_caller)])


def drafts_of(request: Request, documents: WithDocuments, parts: WithParts) -> DraftService:
    """The drafts of this instance."""
    return DraftService(documents, parts.runs, request.app.state.directory.root)


WithDrafts = Annotated[DraftService, Depends(drafts_of)]


class DraftList(BaseModel):
    drafts: list[DraftSummary]


class DraftTag(BaseModel):
    etag: str


class DraftText(BaseModel):
    """A whole text; without one, a new draft is an empty workflow."""

    model_config = ConfigDict(extra="forbid")

    document: str | None = Field(None, max_length=1_000_000)


class DraftEdits(BaseModel):
    """Operations, applied in order, all or none, as one change that can be undone."""

    model_config = ConfigDict(extra="forbid")

    operations: list[Operation] = Field(min_length=1, max_length=500)


class SaveDraft(BaseModel):
    """With `look` only the diff and the diagnostics are returned; `force` replaces a version that
    another program saved since the draft began.
    """

    model_config = ConfigDict(extra="forbid")

    look: bool = False
    force: bool = False


@router.get("")
async def list_drafts(drafts: WithDrafts) -> DraftList:
    """The drafts with changes that are not saved."""
    return DraftList(drafts=drafts.listed())


@router.get("/{name}")
async def show_draft(name: Name, drafts: WithDrafts, response: Response) -> Draft:
    """The draft of a workflow; without changes it is the saved text."""
    return _tagged(await drafts.show(name), response)


@router.get("/{name}/etag")
async def show_draft_tag(name: Name, drafts: WithDrafts) -> DraftTag:
    """The ETag of a draft, for pages that follow the changes of others."""
    return DraftTag(etag=drafts.etag(name))


@router.put("/{name}")
async def put_draft(
    name: Name, body: DraftText, drafts: WithDrafts, response: Response, if_match: Seen = None
) -> Draft:
    """Begin a new workflow, or replace the whole text of a draft, which needs If-Match."""
    if if_match is None:
        return _tagged(await drafts.create(name, body.document), response)
    return _tagged(await drafts.replace(name, body.document or "", seen=if_match), response)


@router.patch("/{name}")
async def edit_draft(
    name: Name, body: DraftEdits, drafts: WithDrafts, response: Response, if_match: Seen = None
) -> Draft:
    """Change fields, nodes, wires or a range of the text; comments and other lines stay."""
    return _tagged(await drafts.edit(name, body.operations, seen=_seen(if_match)), response)


@router.post("/{name}/undo")
async def undo_draft(
    name: Name, drafts: WithDrafts, response: Response, if_match: Seen = None
) -> Draft:
    """Take the latest change back, also one that was made in another window."""
    return _tagged(await drafts.step(name, seen=_seen(if_match), back=True), response)


@router.post("/{name}/redo")
async def redo_draft(
    name: Name, drafts: WithDrafts, response: Response, if_match: Seen = None
) -> Draft:
    """Make the change again that was undone last."""
    return _tagged(await drafts.step(name, seen=_seen(if_match), back=False), response)


@router.post("/{name}/save")
async def save_draft(
    name: Name, body: SaveDraft, drafts: WithDrafts, if_match: Seen = None
) -> Edited:
    """Store the draft as the workflow. One that cannot run is not stored: the response contains its
    diagnostics.
    """
    return await drafts.save(name, seen=_seen(if_match), force=body.force, look=body.look)


@router.delete("/{name}", status_code=204)
async def discard_draft(name: Name, drafts: WithDrafts, if_match: Seen = None) -> None:
    """Remove a draft with its history; the saved workflow stays."""
    drafts.discard(name, seen=_seen(if_match))


def _seen(if_match: str | None) -> str:
    if if_match is None:
        raise seen_missing()
    return if_match


def _tagged(draft: Draft, response: Response) -> Draft:
    response.headers["etag"] = draft.etag
    return draft
