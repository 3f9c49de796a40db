"""The tool `doc.check`: a PDF checked by rules."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from pipecatapp.tools.documents.job import BUBBLEWRAP, PDFIUM, PDFPLUMBER, Job, finished
from pipecatapp.tools.files.place import workspace
from pipecatapp.workflow import Context, tool

MOST: Final = 500
"""Pages that are checked."""
SHOWN: Final = 100
"""Findings that are returned."""

Rule = Literal["template", "markdown", "html", "unfinished", "glyph", "blank", "overfull", "link"]


class Area(BaseModel):
    """A part of a page, in points (1/72 inch) from its upper left corner."""

    left: float
    top: float
    width: float
    height: float


class Fault(BaseModel):
    """A fault of a page."""

    rule: Rule = Field(description="The rule that found it.")
    page: int = Field(description="Number of the page, from 1.")
    message: str = Field(description="The fault.")
    text: str = Field(description="The text in question; empty if there is none.")
    position: Area | None = Field(description="Where it is on the page.")


class Checked(BaseModel):
    """The result of the rules."""

    ok: bool = Field(description="Whether all pages were checked and no rule found anything.")
    findings: list[Fault] = Field(description="The faults, in the order of the pages.")
    more: int = Field(description="Further findings that are left out.")
    text: str = Field(description="The findings as lines, or that there are none.")
    pages: int = Field(description="Pages of the PDF.")
    checked: int = Field(description="Pages that were checked, from the first one on.")


class _Report(BaseModel):
    """The result of the program."""

    findings: list[Fault] = Field(max_length=SHOWN)
    more: int
    pages: int
    checked: int


@tool(
    "doc.check",
    effect="read",
    version=1,
    workspace=True,
    needs=(BUBBLEWRAP, PDFIUM, PDFPLUMBER),
)
async def check(
    ctx: Context,
    path: Annotated[str, Field(description="A PDF of the workspace.", min_length=1)],
    ignore: Annotated[
        list[Rule], Field(description="Rules that are not applied, such as `unfinished`.")
    ] = [],  # noqa: B006
) -> Checked:
    """Check a PDF by rules: templates, Markdown and HTML that were not rendered, unfinished text,
    missing glyphs, blank pages, text beyond the page or in the margin, and broken links."""
    job = Job(
        "check",
        {"file": "input", "most": MOST, "ignore": ignore, "shown": SHOWN},
        failure=f"{path!r} cannot be checked",
        files={"input": path},
    )
    async with finished(ctx, workspace(ctx), job, _Report) as done:
        found = done.result
    ok = not found.findings and found.checked >= found.pages
    told = "\n".join(map(_line, found.findings)) or f"Nothing was found on {_pages(found.checked)}."
    return Checked(ok=ok, text=told, **found.model_dump())


def _pages(number: int) -> str:
    return "1 page" if number == 1 else f"{number:,} pages"


def _line(fault: Fault) -> str:
    quoted = f" Text: {fault.text}" if fault.text else ""
    return f"Page {fault.page}: {fault.message}{quoted}"
