"""Rules about the layout: blank pages, and text that leaves its page or its column."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pypdfium2 import PdfPage
from pypdfium2.raw import FPDF_PAGEOBJ_PATH, FPDF_PAGEOBJ_TEXT

from pipecatapp.tools.documents.jobs.findings import Finding
from pipecatapp.tools.documents.jobs.lines import Box, Line

EDGE: Final = 8.5
"""Points (3 mm) at the edges of a page that printers do not print."""
BEYOND: Final = 1.0
"""Points beyond the page from which text is cut."""
INDENT: Final = 6.0
"""Points into the margin from which a line is too long."""
NARROWEST: Final = 28.0
"""Points of a margin, at least."""
LONG: Final = 20
"""Characters from which a line counts for the margins."""
AGREE: Final = 0.6
"""The share of long lines that must respect a margin, so that it is one."""
SCALE: Final = 0.35
"""Of the rendered page that is compared with an empty one."""
PAGE_NUMBER: Final = re.compile(
    r"\W*(?:page|seite|p\.)?\s*(?:\d{1,5}|[ivxlc]{1,7})(?:\s*(?:/|of|von)\s*\d{1,5})?\W*",
    re.IGNORECASE,
)
FEW_PATHS: Final = 3
"""Lines and frames of a header or a footer."""


@dataclass(frozen=True)
class Sheet:
    """A page: its lines, its visible area, and whether it is turned."""

    number: int
    lines: Sequence[Line]
    box: Box
    turned: bool

    @property
    def width(self) -> float:
        return self.box[2] - self.box[0]


def blank(page: PdfPage, sheet: Sheet) -> Iterator[Finding]:
    """Yield a finding for a page that shows nothing, or only its number."""
    low, high = page.render(scale=SCALE, grayscale=True).to_pil().convert("L").getextrema()
    if low == high:
        yield Finding("blank", sheet.number, "The page is blank.")
        return
    text = " ".join(line.text for line in sheet.lines).strip()
    if not PAGE_NUMBER.fullmatch(text):
        return
    kinds = [one.type for one in page.get_objects(max_depth=3)]
    drawn = len(kinds) - kinds.count(FPDF_PAGEOBJ_TEXT)
    if drawn == kinds.count(FPDF_PAGEOBJ_PATH) <= FEW_PATHS:
        yield Finding("blank", sheet.number, "The page is blank except for its number.", text)


def overfull(sheets: Sequence[Sheet]) -> Iterator[Finding]:
    """Yield the lines that leave the page, are too near its edge, or reach into the margin."""
    margins = _margins(sheets)
    for sheet in sheets:
        for line in sheet.lines:
            box = line.box()
            if box is None:
                continue
            message = _leaves(box, sheet.box) or _too_long(box, sheet, margins)
            if message:
                yield Finding("overfull", sheet.number, message, line.text, box)


def _leaves(box: Box, page: Box) -> str:
    left, bottom, right, top = box
    rooms = {
        "left": left - page[0], "right": page[2] - right,
        "lower": bottom - page[1], "upper": page[3] - top,
    }  # fmt: skip
    side, room = min(rooms.items(), key=lambda pair: pair[1])
    if room < -BEYOND:
        return f"Text reaches {-room:.0f} pt beyond the {side} edge of the page."
    if room < EDGE:
        return f"Text is {max(room, 0):.0f} pt from the {side} edge of the page; printers cut it."
    return ""


def _too_long(box: Box, sheet: Sheet, margins: Mapping[int, float]) -> str:
    margin = margins.get(round(sheet.width))
    if margin is None or sheet.turned:
        return ""
    excess = box[2] - (sheet.box[2] - margin)
    if excess <= INDENT:
        return ""
    return f"The line is too long: it reaches {excess:.0f} pt into the right margin."


def _margins(sheets: Sequence[Sheet]) -> dict[int, float]:
    """Return, by the width of pages, the margin that most long lines keep on both sides."""
    spans: dict[int, list[tuple[float, float]]] = {}
    for sheet in sheets:
        for line in sheet.lines:
            box = line.box()
            if box is not None and len(line.text.strip()) >= LONG and not sheet.turned:
                span = (box[0] - sheet.box[0], sheet.box[2] - box[2])
                spans.setdefault(round(sheet.width), []).append(span)
    return {width: margin for width, found in spans.items() if (margin := _margin(found))}


def _margin(spans: Sequence[tuple[float, float]]) -> float | None:
    """Return the room that no long line uses on its left, if most leave it on their right, too."""
    margin = min(left for left, _right in spans)
    keep = sum(right >= margin - 2 for _left, right in spans)
    return margin if margin >= NARROWEST and keep >= AGREE * len(spans) else None
