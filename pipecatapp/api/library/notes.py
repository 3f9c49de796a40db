"""`/api/notes`: what the agent keeps across conversations, shown with its source and deletable."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel

from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import Behalf
from pipecatapp.api.parts import WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.callers import owner_of
from pipecatapp.application.notes import Note

router = api_router("/api/notes", dependencies=[Depends(known_caller)])


class NoteList(BaseModel):
    """`total`: how many notes there are without the limit."""

    notes: list[Note]
    total: int


@router.get("")
async def list_notes(
    parts: WithParts,
    query: Annotated[str, Query(max_length=1000)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    behalf: Behalf = "",
) -> NoteList:
    """The newest first, or those that hold a word of `query`, the best first."""
    owner = owner_of(behalf)
    found = parts.notes.find(query, limit, owner=owner)
    return NoteList(notes=found, total=parts.notes.number(query, owner=owner))


@router.delete("/{note}", status_code=204)
async def delete_note(note: str, parts: WithParts, behalf: Behalf = "") -> None:
    """Delete a note; no model finds it any more."""
    if not await parts.notes.delete(note, owner=owner_of(behalf)):
        raise Refused(404, "note_not_found", f"There is no note {note!r}.")
