"""Rules about the structure of a PDF: glyphs that a font does not have, and broken links."""

import re
import time
from collections.abc import Iterator
from typing import Any, Final

from pdfminer.pdfdevice import PDFTextDevice
from pdfminer.pdfdocument import PDFDestinationNotFound, PDFDocument
from pdfminer.pdffont import PDFCIDFont
from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
from pdfminer.pdfpage import PDFPage
from pdfminer.pdfparser import PDFParser
from pdfminer.pdftypes import PDFObjRef, resolve1
from pdfminer.psparser import PSLiteral

from pipecatapp.tools.documents.jobs.findings import Finding
from pipecatapp.tools.documents.jobs.lines import Box

SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
MOST_KNOWN: Final = 5000
"""Pages whose identities are compared with targets of links."""


class _Glyphs(PDFTextDevice):
    """Collects the places where a font draws its glyph 0, a box for characters that it lacks."""

    def __init__(self, manager: PDFResourceManager) -> None:
        super().__init__(manager)
        self.missing: list[Box] = []

    def render_char(
        self, matrix: Any, font: Any, fontsize: float, scaling: float, rise: float, cid: int,
        ncs: Any, graphicstate: Any,
    ) -> float:  # fmt: skip
        width = float(font.char_width(cid)) * fontsize * scaling
        if cid == 0 and isinstance(font, PDFCIDFont):
            left, bottom = matrix[4], matrix[5] + rise
            self.missing.append((left, bottom, left + width, bottom + fontsize))
        return width


def check(path: str, most: int, ends: float) -> Iterator[Finding]:
    """Yield the findings of at most so many pages, until `ends` (`time.monotonic()`)."""
    with open(path, "rb") as stream:  # noqa: PTH123 (a parser that reads it lazily)
        document = PDFDocument(PDFParser(stream))
        manager = PDFResourceManager()
        device = _Glyphs(manager)
        interpreter = PDFPageInterpreter(manager, device)
        known = _pages(document)
        for number, page in enumerate(PDFPage.create_pages(document), 1):
            if number > most or time.monotonic() > ends:
                return
            device.missing = []
            interpreter.process_page(page)
            yield from _glyphs(number, device.missing)
            yield from _links(number, page, document, known)


def _glyphs(number: int, missing: list[Box]) -> Iterator[Finding]:
    if missing:
        count = "A character" if len(missing) == 1 else f"{len(missing)} characters"
        verb = "has" if len(missing) == 1 else "have"
        message = f"{count} {verb} no glyph in the font, so a box is shown instead."
        yield Finding("glyph", number, message, "", missing[0])


def _pages(document: PDFDocument) -> set[int]:
    """Return the object ids of the pages; empty if there are too many."""
    known: set[Any] = set()
    for page in PDFPage.create_pages(document):
        known.add(page.pageid)
        if len(known) > MOST_KNOWN:
            return set()
    return known


def _links(number: int, page: PDFPage, document: PDFDocument, known: set[int]) -> Iterator[Finding]:
    for reference in resolve1(page.annots) or []:
        annotation = resolve1(reference)
        if not isinstance(annotation, dict) or not _is(annotation.get("Subtype"), "Link"):
            continue
        fault = _fault(annotation, document, known)
        if fault:
            yield Finding("link", number, fault[0], fault[1], _box(annotation))


def _fault(
    annotation: dict[str, Any], document: PDFDocument, known: set[int]
) -> tuple[str, str] | None:
    """Return message and target of a broken link; None if it is right, or of another kind."""
    action = resolve1(annotation.get("A"))
    if "Dest" in annotation:
        target = resolve1(annotation["Dest"])
    elif isinstance(action, dict) and _is(action.get("S"), "GoTo"):
        target = resolve1(action.get("D"))
    elif isinstance(action, dict) and _is(action.get("S"), "URI"):
        address = _text(resolve1(action.get("URI")))
        bad = not SCHEME.match(address)
        return ("The address of a link is not complete.", address) if bad else None
    else:
        return None
    if _leads_to_page(target, document, known):
        return None
    return "An internal link has no target in the document.", _text(target)


def _leads_to_page(target: Any, document: PDFDocument, known: set[int]) -> bool:
    if isinstance(target, PSLiteral):
        target = target.name
    if isinstance(target, (bytes, str)):
        try:
            target = resolve1(document.get_dest(target))
        except PDFDestinationNotFound:
            return False
    if isinstance(target, dict):
        target = resolve1(target.get("D"))
    if not isinstance(target, list) or not target:
        return False
    first = target[0]
    if isinstance(first, PDFObjRef):
        return not known or first.objid in known
    return isinstance(first, int) and (not known or 0 <= first < len(known))


def _is(value: Any, name: str) -> bool:
    return getattr(resolve1(value), "name", None) == name


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) else ""


def _box(annotation: dict[str, Any]) -> Box | None:
    corners = resolve1(annotation.get("Rect"))
    if not isinstance(corners, list) or len(corners) != 4:
        return None
    numbers = [resolve1(corner) for corner in corners]
    if not all(isinstance(number, (int, float)) for number in numbers):
        return None
    x0, y0, x1, y1 = map(float, numbers)
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
