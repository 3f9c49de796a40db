"""The tool `doc.pages`: pages of a PDF as pictures."""

import asyncio
import hashlib
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.documents.job import BUBBLEWRAP, LARGEST, PDFIUM, Finished, Job, finished
from pipecatapp.tools.documents.write import save
from pipecatapp.tools.files.place import inside, workspace
from pipecatapp.workflow import Context, Package, ToolFailed, tool

MOST: Final = 50
"""Pages of one call."""
PILLOW: Final = Package("PIL", extra="documents")


class PagePicture(BaseModel):
    """One page as a PNG file."""

    page: int = Field(description="Its number, from 1.")
    path: str = Field(description="Of the PNG file in the workspace.")
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    sha256: str = Field(description="Of the file, in hex.")


class Pages(BaseModel):
    """The rendered pages."""

    pictures: list[PagePicture] = Field(description="The PNG files, in the order of the pages.")
    pages: int = Field(description="Pages of the whole PDF.")
    next: int | None = Field(description="The `first` to go on with; null if all are rendered.")


class _Picture(BaseModel):
    page: int = Field(ge=1)
    width: int
    height: int


class _Rendered(BaseModel):
    """The result of the program."""

    pages: int
    pictures: list[_Picture] = Field(max_length=MOST)


@tool("doc.pages", effect="workspace", version=1, needs=(BUBBLEWRAP, PDFIUM, PILLOW))
async def pages(
    ctx: Context,
    path: Annotated[str, Field(description="A PDF of the workspace.", min_length=1)],
    into: Annotated[
        str,
        Field(
            description="Folder of the workspace; the files are page-1.png and so on.", min_length=1
        ),
    ] = "pages",
    first: Annotated[int, Field(description="First page.", ge=1)] = 1,
    last: Annotated[int | None, Field(description="Last page; null is the last one.", ge=1)] = None,
    most: Annotated[int, Field(description="Pages at most.", ge=1, le=MOST)] = 20,
    dpi: Annotated[
        int,
        Field(description="Dots per inch; about 100 for models, 200 for people.", ge=20, le=300),
    ] = 100,
) -> Pages:
    """Render pages of a PDF as PNG files in the workspace, for people and vision models."""
    root = workspace(ctx)
    folder = inside(root, into)
    if last is not None and last < first:
        raise ToolFailed(f"`last` is {last} and `first` is {first}: give the lower page first.")
    job = Job(
        "render",
        {"file": "input", "first": first, "last": last, "most": most, "dpi": dpi},
        failure=f"{path!r} cannot be rendered",
        files={"input": path},
    )
    async with finished(ctx, root, job, _Rendered) as done:
        pictures = await asyncio.to_thread(_save, root, folder, done, job.failure)
        found = done.result
    end = pictures[-1].page if pictures else first
    wanted = min(found.pages, found.pages if last is None else last)
    return Pages(pictures=pictures, pages=found.pages, next=end + 1 if end < wanted else None)


def _save(root: Path, folder: str, done: Finished[_Rendered], failure: str) -> list[PagePicture]:
    pictures = []
    for one in done.result.pictures:
        data = done.content(f"{one.page}.png", LARGEST)
        place = inside(root, f"{folder}/page-{one.page}.png")
        save(root, place, data, failure)
        digest = hashlib.sha256(data).hexdigest()
        pictures.append(PagePicture(path=place, sha256=digest, **one.model_dump()))
    return pictures
