"""The tool `doc.write`: Markdown as a PDF or another document."""

import asyncio
import hashlib
import os
import re
from pathlib import Path, PurePath
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from hearth.files import write_atomic_in
from pipecatapp.sandbox.tree import NotPlain, parent_of
from pipecatapp.tools.documents.job import (
    BUBBLEWRAP,
    LARGEST,
    PANDOC,
    PDFIUM,
    TYPST,
    Job,
    finished,
)
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, ToolFailed, tool

FORMATS: Final = ("pdf", "docx", "html", "epub", "odt")
LONGEST: Final = 4 << 20
"""Characters of the Markdown, at most."""

FENCED: Final = re.compile(r"\s*```(?:markdown|md)[ \t]*\n(.*)\n```\s*", re.DOTALL)
"""A whole text in a fence, as models often answer."""

Paper = Literal["a4", "a5", "a3", "us-letter", "us-legal"]


class DocumentWritten(BaseModel):
    """The written document."""

    path: str = Field(description="Where it really is in the workspace, links resolved.")
    size: int = Field(description="Bytes of the file.")
    sha256: str = Field(description="Of the file, in hex.")
    pages: int | None = Field(description="Pages of a PDF; null for other formats.")
    notes: list[str] = Field(
        description="Parts of the text that were left out, or could not be written as intended."
    )


class _Wrote(BaseModel):
    """The result of the program."""

    pages: int | None
    notes: list[str]


@tool(
    "doc.write",
    effect="workspace",
    version=1,
    needs=(BUBBLEWRAP, PANDOC, TYPST, PDFIUM),
)
async def write(
    ctx: Context,
    path: Annotated[
        str,
        Field(description="The file to write; ends in .pdf, .docx, .html, .epub or .odt."),
    ],
    text: Annotated[
        str,
        Field(
            description="GitHub's Markdown with tables, pictures of the workspace, footnotes, and"
            " formulas between dollar signs. Empty: the file `source` is used.",
            max_length=LONGEST,
        ),
    ] = "",
    source: Annotated[
        str,
        Field(
            description="Instead of `text`, a Markdown file of the workspace. Paths of pictures"
            " are relative to it."
        ),
    ] = "",
    title: Annotated[
        str, Field(description="Title; empty: the one in the text's metadata.", max_length=500)
    ] = "",
    language: Annotated[
        str,
        Field(
            description="Code for hyphens and quotation marks, such as `de`; empty: the one in the"
            " text's metadata, or English.",
            max_length=40,
        ),
    ] = "",
    paper: Annotated[Paper, Field(description="Size of the pages of a PDF.")] = "a4",
    contents: Annotated[  # noqa: FBT002 (an input of a tool is named)
        bool, Field(description="Whether a table of contents is at the beginning.")
    ] = False,
) -> DocumentWritten:
    """Write Markdown as a PDF, docx, html, epub or odt into the workspace."""
    root = workspace(ctx)
    place, form = inside(root, path), PurePath(path).suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise ToolFailed(
            f"{path!r} has no format of a document: its name must end in .{', .'.join(FORMATS)}."
        )
    if bool(text.strip()) == bool(source):
        raise ToolFailed("Give either `text` or `source`: the Markdown, or a file with it.")
    job = Job(
        "write",
        {
            "form": form,
            "paper": paper,
            "title": title,
            "language": language,
            "folder": str(PurePath(inside(root, source)).parent) if source else "",
            "contents": contents,
        },
        failure=f"{path!r} cannot be written",
        files={"input.md": source} if source else {},
        texts={}
        if source
        else {"input.md": fenced[1] if (fenced := FENCED.fullmatch(text)) else text},
        sees_workspace=True,
    )
    async with finished(ctx, root, job, _Wrote) as done:
        data = await asyncio.to_thread(done.content, f"document.{form}", LARGEST)
        await asyncio.to_thread(save, root, place, data, job.failure)
    return DocumentWritten(
        path=place,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        pages=done.result.pages,
        notes=done.result.notes,
    )


def save(root: Path, place: str, data: bytes, failure: str) -> None:
    """Write a file of the workspace; readers see the whole file or the previous one.

    Raises `ToolFailed` with the reason if it cannot be written.
    """
    try:
        with parent_of(root, place, make=True) as (folder, name):
            if os.path.isdir(f"/proc/self/fd/{folder}/{name}"):  # noqa: PTH112 (an open folder)
                raise NotPlain("it is a folder")
            write_atomic_in(folder, name, data, permissions=0o644)
    except NotPlain as error:
        raise ToolFailed(f"{failure}: {error}.") from error
    except OSError as error:
        raise ToolFailed(f"{failure}: {error.strerror}.") from error
