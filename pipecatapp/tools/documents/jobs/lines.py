"""The lines of a page of a PDF with the positions of their characters."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pypdfium2 import PdfPage
from pypdfium2 import raw as pdfium

FIXED_PITCH: Final = 1
"""Bit of a font's flags: all characters have the same width (PDF 32000-1, table 123)."""
MONOSPACED: Final = (
    b"mono", b"monl", b"courier", b"consolas", b"typewriter", b"menlo", b"code", b"cmtt", b"ectt",
    b"sftt", b"txtt",
)  # fmt: skip
"""Parts of the names of such fonts, in lower case; the flag is often not set."""
LONGEST_NAME: Final = 128

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points from the lower left corner of the page."""


@dataclass
class Line:
    """A line of text."""

    page: int
    text: str = ""
    boxes: list[Box] = field(default_factory=list)
    """Of each character."""
    mono: list[bool] = field(default_factory=list)
    """Whether each character has a monospaced font, as code has."""

    def add(self, letter: str, box: Box, *, mono: bool) -> None:
        """Append a character."""
        self.text += letter
        self.boxes.append(box)
        self.mono.append(mono)

    def box(self, start: int = 0, end: int | None = None) -> Box | None:
        """Return the smallest box around the visible characters of a part; None without any."""
        shown = [
            box
            for letter, box in zip(self.text[start:end], self.boxes[start:end], strict=True)
            if not letter.isspace() and box[2] > box[0]
        ]
        if not shown:
            return None
        left, bottom, right, top = zip(*shown, strict=True)
        return min(left), min(bottom), max(right), max(top)

    def prose(self) -> str:
        """Return the text with spaces in place of code."""
        pairs = zip(self.text, self.mono, strict=True)
        return "".join(" " if mono else letter for letter, mono in pairs)


def lines_of(page: PdfPage, number: int) -> Iterator[Line]:
    """Yield the lines of a page that have visible characters."""
    textpage = page.get_textpage()
    try:
        line = Line(number)
        for index in range(textpage.count_chars()):
            code = pdfium.FPDFText_GetUnicode(textpage, index)
            if code in (10, 13):
                if line.text.strip():
                    yield line
                line = Line(number)
                continue
            letter = chr(code) if 0 < code < 0x110000 else "\ufffd"
            if letter in "\x02\ufffe":
                letter = "-"
            mono = not letter.isspace() and _monospaced(textpage, index)
            line.add(letter, textpage.get_charbox(index), mono=mono)
        if line.text.strip():
            yield line
    finally:
        textpage.close()


def _monospaced(textpage: Any, index: int) -> bool:
    name = ctypes.create_string_buffer(LONGEST_NAME)
    flags = ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(textpage, index, name, LONGEST_NAME, ctypes.byref(flags))
    return bool(flags.value & FIXED_PITCH) or any(part in name.value.lower() for part in MONOSPACED)
