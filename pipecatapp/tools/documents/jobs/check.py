"""Check a PDF by rules."""

import time
from itertools import chain
from typing import Any, Final

from pypdfium2 import PdfPage

from pipecatapp.tools.documents.jobs import layout_rules, structure_rules, text_rules
from pipecatapp.tools.documents.jobs.findings import Finding
from pipecatapp.tools.documents.jobs.layout_rules import Sheet
from pipecatapp.tools.documents.jobs.lines import lines_of
from pipecatapp.tools.documents.jobs.pdf import open_pdf

SECONDS: Final = 40.0
"""For each of the two parts; pages after that are not checked."""


def run(file: str, most: int, ignore: list[str], shown: int) -> dict[str, Any]:
    """Check at most `most` pages; returns at most `shown` findings in the order of the pages."""
    sheets: list[Sheet] = []
    found: list[Finding] = []
    with open_pdf(file) as document:
        count, ends = len(document), time.monotonic() + SECONDS
        for number in range(1, min(count, most) + 1):
            page = document[number - 1]
            sheet = _sheet(page, number)
            sheets.append(sheet)
            found += layout_rules.blank(page, sheet)
            page.close()
            if time.monotonic() > ends:
                break
    lines = [line for sheet in sheets for line in sheet.lines]
    structure = structure_rules.check(file, len(sheets), time.monotonic() + SECONDS)
    found += chain(text_rules.check(lines), layout_rules.overfull(sheets), structure)
    left = [one for one in found if one.rule not in ignore]
    left.sort(key=lambda one: (one.page, -(one.box or (0, 0, 0, 1e9))[3]))
    return {
        "findings": [one.data(sheets[one.page - 1].box) for one in left[:shown]],
        "more": max(0, len(left) - shown),
        "pages": count,
        "checked": len(sheets),
    }


def _sheet(page: PdfPage, number: int) -> Sheet:
    box = page.get_cropbox()
    return Sheet(number, list(lines_of(page, number)), box, bool(page.get_rotation()))
