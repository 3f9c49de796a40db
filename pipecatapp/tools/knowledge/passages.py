"""Cut a document into passages: the units that are found, ranked and cited."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pipecatapp.tools.documents.read import CHARACTERS_PER_TOKEN, cut
from pipecatapp.tools.memory.tokens import estimated

LARGEST: Final = 400
"""Tokens of a passage, with the headings above it."""
HEADINGS: Final = 120
"""Tokens of the headings above a passage, at most."""
SEPARATOR: Final = " > "
_HEADING: Final = re.compile(r"^ {0,3}(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True)
class Passage:
    """A part of a document. `line` and `last` are its first and last line, from 1.

    `page` is the number of the page of a PDF, whose lines are counted from 1 on each page; 0 for
    documents without pages.
    """

    heading: str
    page: int
    line: int
    last: int
    text: str

    @property
    def whole(self) -> str:
        """The text that is embedded: the headings above the passage, then its own text."""
        return f"{self.heading}\n\n{self.text}" if self.heading else self.text

    @property
    def digest(self) -> bytes:
        """The SHA-256 of `whole`, by which an unchanged passage keeps its embedding."""
        return hashlib.sha256(self.whole.encode()).digest()


@dataclass
class _Block:
    """Lines that belong together: a paragraph, a list, a table or a fenced block."""

    line: int
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def last(self) -> int:
        return self.line + len(self.lines) - 1


def passages(text: str, *, page: int = 0) -> list[Passage]:
    """Cut a text in Markdown, or a plain text, into passages of at most `LARGEST` tokens.

    A passage never continues behind a heading. Paragraphs are kept whole where they fit.
    """
    found: list[Passage] = []
    for heading, blocks in _sections(text):
        room = LARGEST - estimated(heading)
        kept: list[_Block] = []
        for block in (part for whole in blocks for part in _fitting(whole, room)):
            if kept and estimated("\n\n".join(one.text for one in [*kept, block])) > room:
                found.append(_passage(heading, page, kept))
                kept = []
            kept.append(block)
        if kept:
            found.append(_passage(heading, page, kept))
    return found


def _passage(heading: str, page: int, blocks: list[_Block]) -> Passage:
    text = "\n\n".join(block.text for block in blocks)
    return Passage(heading, page, blocks[0].line, blocks[-1].last, text)


def _sections(text: str) -> Iterator[tuple[str, list[_Block]]]:
    """Yield the path of headings and the blocks below each heading."""
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    start, fence = 1, ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        heading = None if fence else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        yield _path(path), _blocks(lines, start)
        level = len(heading[1])
        path = [*(one for one in path if one[0] < level), (level, heading[2])]
        lines, start = [], number + 1
    yield _path(path), _blocks(lines, start)


def _path(path: list[tuple[int, str]]) -> str:
    """Return the headings from the outermost to the innermost, without the outer ones if long."""
    names = [name[: cut(name, HEADINGS)] for _, name in path]
    while len(names) > 1 and estimated(SEPARATOR.join(names)) > HEADINGS:
        names.pop(0)
    return SEPARATOR.join(names)


def _blocks(lines: list[str], start: int) -> list[_Block]:
    """Group lines that no empty line separates."""
    blocks: list[_Block] = []
    current: list[str] = []
    for number, line in enumerate([*lines, ""], start):
        if line.strip():
            current.append(line.rstrip())
        elif current:
            blocks.append(_Block(number - len(current), current))
            current = []
    return blocks


def _fitting(block: _Block, room: int) -> Iterator[_Block]:
    """Yield a block in parts of at most `room` tokens, cut at lines, otherwise at words."""
    kept: list[str] = []
    first = block.line
    pieces = (
        (number, piece)
        for number, line in enumerate(block.lines, block.line)
        for piece in _pieces(line, room)
    )
    for number, piece in pieces:
        if kept and estimated("\n".join([*kept, piece])) > room:
            yield _Block(first, kept)
            kept = []
        first = first if kept else number
        kept.append(piece)
    if kept:
        yield _Block(first, kept)


def _pieces(line: str, room: int) -> Iterator[str]:
    """Yield a line in parts of at most `room` tokens. A line may have megabytes."""
    start, window = 0, room * CHARACTERS_PER_TOKEN
    while start < len(line):
        part = line[start : start + window]
        end = len(part) if len(part) < window and estimated(part) <= room else cut(part, room) or 1
        if piece := part[:end].strip():
            yield piece
        start += end
