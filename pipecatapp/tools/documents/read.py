"""The tool `doc.read`: a document as Markdown."""

from pathlib import PurePath
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.documents.job import (
    BUBBLEWRAP,
    OPENPYXL,
    PANDOC,
    PDFIUM,
    PDFPLUMBER,
    Job,
    finished,
)
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.workflow import Context, ToolFailed, tool

CHARACTERS_PER_TOKEN: Final = 4
"""More than `estimated` counts for any text, so a part of a document always fills the budget."""
BOUNDARIES: Final = ("\n\n", "\n", " ")
"""Where a text is cut, the best first."""


class Position(BaseModel):
    """A position in a document."""

    page: int = Field(description="Number of the page; 1 for a document without pages.")
    start: int = Field(description="Characters of that page to leave out.")


class DocumentText(BaseModel):
    """A document, or the part of it that fits the budget."""

    text: str = Field(
        description="Markdown. A line `[page 3]` is before the text of each page of a PDF."
    )
    path: str = Field(description="Where the file really is in the workspace, links resolved.")
    kind: str = Field(description="The format by its content: pdf, docx, xlsx, html, text …")
    title: str = Field(description="Title in its metadata; empty if it has none.")
    metadata: dict[str, str] = Field(description="Author, dates and others that it has.")
    pages: int | None = Field(description="Pages of the whole PDF; null for other formats.")
    left_out: str = Field(
        description="The part that follows, and how to read it; empty at the end."
    )
    next: Position | None = Field(description="The `page` and `start` to read on from.")
    notes: list[str] = Field(description="Parts that could not be read, such as scanned pages.")


class Segment(BaseModel):
    page: int
    text: str


class Parsed(BaseModel):
    """The result of the program."""

    kind: str
    facts: dict[str, str]
    notes: list[str]
    pages: int | None
    segments: list[Segment] = Field(min_length=1)


@tool(
    "doc.read",
    effect="read",
    version=1,
    workspace=True,
    needs=(BUBBLEWRAP, PANDOC, PDFIUM, PDFPLUMBER, OPENPYXL),
)
async def read(
    ctx: Context,
    path: Annotated[
        str,
        Field(
            description="PDF, docx, pptx, xlsx, odt, epub, html, csv, Markdown or text.",
            min_length=1,
        ),
    ],
    page: Annotated[int, Field(description="Page of a PDF to begin with.", ge=1)] = 1,
    start: Annotated[
        int, Field(description="Characters to leave out there at the beginning.", ge=0)
    ] = 0,
    budget: Annotated[int, Field(description="Tokens of text at most.", ge=50, le=50_000)] = 4000,
) -> DocumentText:
    """Read a document as Markdown, with its tables, page numbers and metadata."""
    root = workspace(ctx)
    place = inside(root, path)
    characters = start + budget * CHARACTERS_PER_TOKEN
    job = Job(
        "read",
        {"file": "input", "name": PurePath(place).name, "page": page, "characters": characters},
        failure=f"{path!r} cannot be read",
        files={"input": path},
    )
    async with finished(ctx, root, job, Parsed) as done:
        found = done.result
    if found.pages is None and page > 1:
        raise ToolFailed(f"{path!r} has no pages: leave `page` out, and use `start`.")
    text, following = fitting(found.segments, start, budget, marked=found.pages is not None)
    last = found.segments[-1]
    if following is None and found.pages is not None and last.page < found.pages:
        following = Position(page=last.page + 1, start=0)
    facts = dict(found.facts)
    return DocumentText(
        text=text,
        path=place,
        kind=found.kind,
        title=facts.pop("title", ""),
        metadata=facts,
        pages=found.pages,
        left_out=_left_out(found, following),
        next=following,
        notes=found.notes,
    )


def fitting(
    segments: list[Segment], start: int, budget: int, *, marked: bool
) -> tuple[str, Position | None]:
    """Return the text that fits the budget, and where the rest begins; `start` is in the first.

    A segment is cut at the end of a paragraph, a line or a word.
    """
    parts: list[str] = []
    for number, segment in enumerate(segments):
        begin = start if number == 0 else 0
        head = f"[page {segment.page}]\n" if marked else ""
        room = budget - estimated("\n\n".join([*parts, head])) if parts else budget
        body = segment.text[begin:]
        if estimated(head + body) <= room:
            parts.append(head + body)
            continue
        kept = cut(body, room - estimated(head)) if room > 0 else 0
        if not kept and parts:
            return "\n\n".join(parts), Position(page=segment.page, start=begin)
        kept = kept or 1
        parts.append(head + body[:kept].rstrip())
        return "\n\n".join(parts), Position(page=segment.page, start=begin + kept)
    return "\n\n".join(parts), None


def cut(text: str, room: int) -> int:
    """Return how many characters of a text have at most `room` tokens, up to a boundary."""
    low, high = 0, min(len(text), max(0, room) * CHARACTERS_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        if estimated(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    if low >= len(text):
        return len(text)
    for boundary in BOUNDARIES:
        end = text.rfind(boundary, low // 2, low)
        if end > 0:
            return end + len(boundary)
    return low


def _left_out(found: Parsed, following: Position | None) -> str:
    if following is None:
        return ""
    again = f"Read on with page={following.page} and start={following.start}."
    if found.pages is None:
        left = len(found.segments[0].text) - following.start
        return f"{left} characters are left out. Read on with start={following.start}."
    part = f"The rest of page {following.page}" if following.start else f"Page {following.page}"
    rest = found.pages - following.page
    more = f" and {rest} further pages are" if rest else " is"
    return f"{part}{more} left out. {again}"
