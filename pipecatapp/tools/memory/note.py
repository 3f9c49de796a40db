"""Notes: short texts that are kept across conversations."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.library import notes
from pipecatapp.library.notes import Note
from pipecatapp.workflow import Context, Ledger, tool

LONGEST = 4000
"""Characters. A note is a remark; longer texts are documents."""


class SavedNote(BaseModel):
    """One note as it is kept."""

    id: str = Field(description="Its name.")
    at: str = Field(description="When it was saved: ISO 8601, UTC.")
    text: str = Field(description="What is remembered.")
    tags: list[str] = Field(description="Words to find it by.")


class FoundNotes(BaseModel):
    """The notes that fit, the best first."""

    notes: list[SavedNote] = Field(description="Empty when no note fits.")


@tool("note.save", effect="external", version=1)
async def save(
    ctx: Context,
    text: Annotated[
        str,
        Field(
            description="What to remember, as a full sentence.", min_length=1, max_length=LONGEST
        ),
    ],
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=40)]],
        Field(description="Words to find it by.", max_length=20),
    ] = [],  # noqa: B006
) -> SavedNote:
    """Remember a fact for later conversations. Use it when the user asks to remember something."""
    return saved_note(await notes.save(ctx.service(Ledger), text, tags))


@tool("note.find", effect="read", version=1)
async def find(
    ctx: Context,
    query: Annotated[
        str, Field(description="Words that the note contains; empty for the latest notes.")
    ] = "",
    limit: Annotated[int, Field(description="How many at most.", ge=1, le=50)] = 10,
) -> FoundNotes:
    """Find notes that were saved earlier, also in other conversations."""
    return FoundNotes(notes=[saved_note(n) for n in notes.find(ctx.service(Ledger), query, limit)])


def saved_note(note: Note) -> SavedNote:
    return SavedNote(id=note.id, at=note.at, text=note.text, tags=list(note.tags))
