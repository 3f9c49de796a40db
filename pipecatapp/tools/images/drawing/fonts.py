"""Widths of texts, and the fonts that have their characters."""

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "fonts"
FAMILY: Final = "Noto Sans"
FILES: Final = {False: FOLDER / "NotoSans-Regular.ttf", True: FOLDER / "NotoSans-Bold.ttf"}
SYSTEM: Final = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")
SUFFIXES: Final = (".ttf", ".otf", ".ttc")
STRANGE: Final = ("italic", "oblique", "bold", "black", "thin", "light", "condensed", "mono")
"""Parts of names of fonts that are used only if no plain one has a character."""
MISSING: Final = "\ufffd"
"""Replaces a character that no font has."""
MARK: Final = "…"
WIDE, NARROW = 1.0, 0.6
"""Widths of characters of other fonts, in ems: East Asian ones, all others."""


@dataclass(frozen=True)
class Face:
    """The widths of the characters of a font, in ems."""

    widths: dict[str, float]

    def width(self, letter: str) -> float:
        """Return the width of a character, estimated if the font lacks it."""
        known = self.widths.get(letter)
        if known is not None:
            return known
        if unicodedata.combining(letter):
            return 0.0
        return WIDE if unicodedata.east_asian_width(letter) in "WF" else NARROW


@lru_cache
def face(*, bold: bool) -> Face:
    """Read a font of Hearth."""
    from fontTools.ttLib import TTFont  # noqa: PLC0415

    with TTFont(FILES[bold], lazy=True) as font:
        unit, advances = font["head"].unitsPerEm, font["hmtx"].metrics
        return Face(
            {chr(code): advances[glyph][0] / unit for code, glyph in font.getBestCmap().items()}
        )


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of a text in pixels, without kerning."""
    letters = face(bold=bold)
    return size * sum(map(letters.width, text))


def shortened(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """Return a text that is at most `room` pixels wide; a longer one ends in `…`."""
    if width(text, size, bold=bold) <= room:
        return text
    left = room - width(MARK, size, bold=bold)
    kept = text[: _fit(text, size, left, bold=bold)] if left > 0 else ""
    return kept.rstrip() + MARK


def wrapped(text: str, size: float, room: float, most: int, *, bold: bool = False) -> list[str]:
    """Return at most `most` lines of a text; the last one is shortened if there would be more."""
    lines = [line for part in text.split("\n") for line in _lines(part, size, room, bold=bold)]
    if len(lines) > most:
        rest = " ".join(lines[most - 1 :])
        lines = [*lines[: most - 1], shortened(rest, size, room, bold=bold)]
    return [shortened(line, size, room, bold=bold) for line in lines] or [""]


def _lines(text: str, size: float, room: float, *, bold: bool) -> Iterator[str]:
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if line and width(longer, size, bold=bold) > room:
            yield line
            longer = word
        while width(longer, size, bold=bold) > room and len(longer) > 1:
            fit = _fit(longer, size, room, bold=bold)
            yield longer[:fit]
            longer = longer[fit:]
        line = longer
    if line:
        yield line


def _fit(text: str, size: float, room: float, *, bold: bool) -> int:
    """Return how many characters fit, at least one."""
    letters, wide = face(bold=bold), 0.0
    for count, letter in enumerate(text):
        wide += size * letters.width(letter)
        if wide > room:
            return max(1, count)
    return len(text)


@dataclass(frozen=True)
class Fonts:
    """The fonts for a text, and the characters that no font of the machine has."""

    files: tuple[Path, ...]
    missing: str


def fonts_for(text: str) -> Fonts:
    """Return the fonts of Hearth, and as many of the machine as the characters need."""
    own = face(bold=False).widths
    needed = {letter for letter in text if letter not in own and not _is_invisible(letter)}
    files = list(FILES.values())
    for file in _system_files() if needed else ():
        has = needed & _letters_of(file)
        if has:
            files.append(file)
            needed -= has
        if not needed:
            break
    return Fonts(tuple(files), "".join(sorted(needed)))


def _is_invisible(letter: str) -> bool:
    return letter.isspace() or unicodedata.category(letter) in ("Cf", "Mn")


@lru_cache
def _system_files() -> tuple[Path, ...]:
    found = [
        Path(folder, name)
        for root in SYSTEM
        for folder, _, names in os.walk(Path(root).expanduser())
        for name in names
        if name.lower().endswith(SUFFIXES)
    ]
    return tuple(sorted(found, key=_strangeness))


def _strangeness(file: Path) -> tuple[int, str, str]:
    name = file.name.lower()
    plain = sum(part in name for part in STRANGE) + ("sans" not in name)
    return plain, name, str(file)


@lru_cache(4096)
def _letters_of(file: Path) -> frozenset[str]:
    """Return the characters of a font; none if it cannot be read."""
    from fontTools.ttLib import TTFont, TTLibError  # noqa: PLC0415

    try:
        with TTFont(file, fontNumber=0, lazy=True) as font:
            return frozenset(map(chr, font.getBestCmap() or ()))
    except (OSError, TTLibError):
        return frozenset()
