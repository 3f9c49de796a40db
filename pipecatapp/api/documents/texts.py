"""`/api/workflows/{name}/document` and `PATCH /api/workflows/{name}`: documents as texts.

A browser does not edit YAML: it sends operations and the ETag of the version it read. The text is
edited here, so that comments, order and all unaffected lines are preserved.
"""

from typing import Annotated

from fastapi import Depends, Header, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.documents.editing import Operation
from pipecatapp.application.documents.service import (
    Difference,
    DocumentService,
    DocumentText,
    Edited,
)
from pipecatapp.application.runs import Document

router = api_router("/api/workflows", dependencies=[Depends(known_caller)])

Name = Annotated[str, Path(pattern=r"^[a-z][a-z0-9-]*$", max_length=200)]
Seen = Annotated[str | None, Header(alias="if-match", max_length=200)]


def documents_of(request: Request, parts: WithParts) -> DocumentService:
    """The documents of this instance."""
    return DocumentService(parts.runs, request.app.state.directory.root)


WithDocuments = Annotated[DocumentService, Depends(documents_of)]


class Edits(BaseModel):
    """Operations, applied in order, all or none; with `look` nothing is stored."""

    model_config = ConfigDict(extra="forbid")

    operations: list[Operation] = Field(min_length=1, max_length=500)
    look: bool = False


class NewText(BaseModel):
    model_config = ConfigDict(extra="forbid")

    document: str
    look: bool = False


class Both(BaseModel):
    model_config = ConfigDict(extra="forbid")

    before: Document
    after: Document


@router.post("/diff")
async def compare_documents(body: Both, documents: WithDocuments) -> Difference:
    """Return the differences of two documents with their layers, as a diff and by field."""
    return documents.compare(body.before, body.after)


@router.get("/{name}/document")
async def show_document(name: Name, documents: WithDocuments, response: Response) -> DocumentText:
    """The text of a workflow; its ETag is in the header, too."""
    shown = documents.text(name)
    response.headers["etag"] = shown.etag
    return shown


@router.put("/{name}/document")
async def put_document(
    name: Name, body: NewText, documents: WithDocuments, response: Response, if_match: Seen = None
) -> Edited:
    """Store a text as this workflow; a new one needs no If-Match. An invalid one is not stored: the
    response contains its diagnostics.
    """
    if if_match is None and documents.knows(name):
        raise seen_missing()
    shown = await documents.put(name, body.document, seen=if_match, look=body.look)
    response.headers["etag"] = shown.etag
    return shown


@router.patch("/{name}")
async def edit_document(
    name: Name, body: Edits, documents: WithDocuments, response: Response, if_match: Seen = None
) -> Edited:
    """Change fields, add, move and remove nodes; only the lines that are touched change."""
    if if_match is None:
        raise seen_missing()
    shown = await documents.edit(name, body.operations, seen=if_match, look=body.look)
    response.headers["etag"] = shown.etag
    return shown


@router.delete("/{name}/document", status_code=204)
async def remove_document(name: Name, documents: WithDocuments, if_match: Seen = None) -> None:
    """Remove a workflow that a person keeps; a shipped one of this id is back then."""
    if if_match is None:
        raise seen_missing()
    documents.remove(name, seen=if_match)


def seen_missing() -> Refused:
    message = "Send If-Match with the ETag of the text that you saw, or * for any text."
    return Refused(428, "if_match_missing", message)
