"""Notes: short texts that are stored across conversations."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.records import notes
from pipecatapp.records.notes import Note
from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.workflow import Context, Ledger, tool

LONGEST = 4000
"""Characters. A note is a remark; longer texts are documents."""


class SavedNote(BaseModel):
    """One stored note."""

    id: str = Field(description="Its name.")
    at: str = Field(description="When it was saved: ISO 8601, UTC.")
    text: str = Field(description="The notes.")
    tags: list[str] = Field(description="Words to find it by.")
    source: str = Field(
        "", description="The caller and run that saved it, and what the run had read."
    )


class FoundNotes(BaseModel):
    """The notes that fit, the best first."""

    notes: list[SavedNote] = Field(description="Empty when no note fits.")


@tool("note.save", effect="external", version=1, approve="never")
async def save(
    ctx: Context,
    text: Annotated[
        str,
        Field(
            description="The fact to remember, as a full sentence.",
            min_length=1,
            max_length=LONGEST,
        ),
    ],
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=40)]],
        Field(description="Words to find it by.", max_length=20),
    ] = [],  # noqa: B006
) -> SavedNote:
    """Remember a fact for later conversations. Use it when the user asks to remember something."""
    ledger, owner = ctx.service(Ledger), owner_of_run(ctx)
    source = notes.source_of(ledger, ctx.run, ctx.path)
    return saved_note(await notes.save(ledger, text, tags, owner=owner, source=source))


@tool("note.find", effect="read", version=1)
async def find(
    ctx: Context,
    query: Annotated[
        str, Field(description="Words that the note contains; empty for the latest notes.")
    ] = "",
    limit: Annotated[int, Field(description="How many at most.", ge=1, le=50)] = 10,
) -> FoundNotes:
    """Find notes that were saved earlier, also in other conversations."""
    found = notes.find(ctx.service(Ledger), query, limit, owner=owner_of_run(ctx))
    return FoundNotes(notes=[saved_note(note) for note in found])


def saved_note(note: Note) -> SavedNote:
    source = str(note.source)
    return SavedNote(id=note.id, at=note.at, text=note.text, tags=list(note.tags), source=source)
