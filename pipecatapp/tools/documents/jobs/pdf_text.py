"""The text of a PDF, with its ruled tables as Markdown tables."""

import io
import re
import time
from dataclasses import dataclass
from typing import Any, Final

import pdfplumber
import pypdfium2
from pypdfium2 import PdfDocument, PdfPage
from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_PATH

from pipecatapp.tools.documents.jobs import tables
from pipecatapp.tools.documents.jobs.failed import JobFailed
from pipecatapp.tools.documents.jobs.pdf import facts, open_pdf

SECONDS: Final = 60.0
"""After this time, the rest of the document is left for the next call."""
MOST_PAGES: Final = 500
"""Pages of one call."""
_HYPHEN: Final = re.compile("[\x02\ufffe\u00ad](?:\r?\n)?")
"""How PDFium marks a hyphen that only divides a word at the end of a line."""
_LINES: Final = re.compile(r"\r\n?")
_BLANKS: Final = re.compile(r"\n{3,}")
_LEADERS: Final = re.compile(r"(?:\. ?){5,}")
"""The dots between a heading and its page in a table of contents."""
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in points from the upper left corner of the page."""


@dataclass(frozen=True)
class Table:
    box: Box
    rows: list[list[str | None]]


def read(path: str, page: int, characters: int) -> dict[str, Any]:
    """Return the texts of pages from `page` on, until they have so many characters."""
    with open_pdf(path) as document:
        count = len(document)
        if page > count:
            raise JobFailed(f"it has {count} pages, so there is no page {page}")
        segments: list[dict[str, Any]] = []
        pictures: list[int] = []
        size, ends = 0, time.monotonic() + SECONDS
        for number in range(page, min(count, page + MOST_PAGES - 1) + 1):
            text, has_picture = _page(document, number - 1)
            segments.append({"page": number, "text": text})
            if has_picture and not text:
                pictures.append(number)
            size += len(text)
            if size >= characters or time.monotonic() > ends:
                break
        notes = [_scanned(pictures)] if pictures else []
        return {"segments": segments, "pages": count, "facts": facts(document), "notes": notes}


def _scanned(pages: list[int]) -> str:
    some = ", ".join(map(str, pages[:20]))
    return (
        f"No text, only pictures, on page {some}: a scan. `doc.pages` renders pages for a model"
        " that reads pictures."
    )


def _page(document: PdfDocument, index: int) -> tuple[str, bool]:
    """Return the Markdown of a page, and whether it has a picture."""
    page = document[index]
    kinds = [one.type for one in page.get_objects(max_depth=3)]
    paths = kinds.count(FPDF_PAGEOBJ_PATH)
    found = _tables(document, index, page) if 3 <= paths <= 20_000 else []
    textpage = page.get_textpage()
    try:
        if not found:
            return clean(textpage.get_text_range()), FPDF_PAGEOBJ_IMAGE in kinds
        return _around(textpage, found, page.get_size()), True
    finally:
        textpage.close()
        page.close()


def clean(text: str) -> str:
    """Return text of PDFium with usual line ends, divided words joined, and neither control
    codes nor rows of dots."""
    joined = _LEADERS.sub("… ", _LINES.sub("\n", _HYPHEN.sub("", text)))
    lines = (line.rstrip() for line in _CONTROLS.sub("", joined).split("\n"))
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip()


def _tables(document: PdfDocument, index: int, page: PdfPage) -> list[Table]:
    """Return the tables with lines between their cells, from top to bottom.

    pdfplumber lists all pages of a document first, so it is given this page alone. Positions on
    pages that are rotated or cropped differ between the libraries: their tables stay text.
    """
    if page.get_rotation() or page.get_mediabox()[:2] != (0, 0):
        return []
    if page.get_cropbox() != page.get_mediabox():
        return []
    with pypdfium2.PdfDocument.new() as single, io.BytesIO() as stream:
        single.import_pages(document, [index])
        single.save(stream)
        with pdfplumber.open(stream) as plumbed:
            found = [Table(one.bbox, one.extract()) for one in plumbed.pages[0].find_tables()]
    return sorted((one for one in found if _is_table(one)), key=lambda one: one.box[1])


def _is_table(table: Table) -> bool:
    """Whether it has two rows and columns at least, and text in half of its cells; else it is a
    frame or a drawing."""
    cells = [cell for row in table.rows for cell in row]
    filled = sum(bool(cell and cell.strip()) for cell in cells)
    wide = len(table.rows) >= 2 and max(map(len, table.rows)) >= 2
    return wide and filled * 2 >= len(cells)


def _around(textpage: Any, found: list[Table], size: tuple[float, float]) -> str:
    """Return the text above, beside and below the tables, with the tables between."""
    width, height = size
    parts: list[str] = []
    done = 0.0

    def add(left: float, top: float, right: float, bottom: float) -> None:
        if bottom > top and right > left:
            text = textpage.get_text_bounded(left, height - bottom, right, height - top)
            parts.append(clean(text))

    for table in found:
        left, top, right, bottom = table.box
        if bottom <= done:
            continue
        add(0, done, width, top)
        add(0, max(top, done), left, bottom)
        parts.append("\n".join(tables.markdown(table.rows)))
        add(right, max(top, done), width, bottom)
        done = bottom
    add(0, done, width, height)
    return "\n\n".join(part for part in parts if part)
