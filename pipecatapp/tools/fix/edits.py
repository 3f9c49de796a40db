"""A text that is being repaired, and every change of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field

LARGEST: Final = 128 << 10
"""Characters of a text that is repaired: parsing YAML takes seconds for a megabyte."""
FENCE: Final = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+-]*)[ \t]*\r?\n?")


class TextChange(BaseModel):
    """A change of a text."""

    line: int = Field(description="Where it begins in the text that was passed, from 1.")
    reason: str
    before: str = Field(description="The text that was replaced or removed; empty if none.")
    after: str = Field(description="The text in its place; empty if it was removed.")


class CannotRepair(ValueError):
    """A text that cannot be repaired without a guess; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Edits:
    """A text and its changes, each at an offset of the text as it was before that change."""

    def __init__(self, text: str) -> None:
        self.original = self.text = text
        self.changes: list[TextChange] = []
        self.offsets: list[int] = []

    def replace(self, start: int, end: int, new: str, reason: str) -> None:
        """Replace a part of the text. Nothing is recorded if it is equal."""
        old = self.text[start:end]
        if old != new:
            line = self.line_at(start)
            self.text = self.text[:start] + new + self.text[end:]
            self.changes.append(TextChange(line=line, reason=reason, before=old, after=new))
            self.offsets.append(start)

    def become(self, new: str, reason: str) -> None:
        """Replace the text; only the part that differs is recorded."""
        start = _common(self.text, new)
        rest = min(len(self.text), len(new)) - start
        tail = _common(self.text[::-1][:rest], new[::-1][:rest])
        self.replace(start, len(self.text) - tail, new[start : len(new) - tail], reason)

    def line_at(self, offset: int) -> int:
        """Return the line of the original text, from 1, of an offset of the present text."""
        for start, change in zip(reversed(self.offsets), reversed(self.changes), strict=True):
            if offset >= start + len(change.after):
                offset += len(change.before) - len(change.after)
            elif offset > start:
                offset = min(offset, start + len(change.before))
        return self.original.count("\n", 0, offset) + 1


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning; halving compares whole blocks at once."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


@dataclass(frozen=True)
class Block:
    """A fenced block at the beginning of lines."""

    word: str
    start: int
    end: int
    """The offsets of the text inside of it."""


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text; the last one may be unclosed."""
    opened: tuple[str, str, int] | None = None
    offset = 0
    for line in text.splitlines(keepends=True):
        found = FENCE.fullmatch(line)
        if opened is None and found:
            opened = (found[1], found[2].lower(), offset + len(line))
        elif opened and found and not found[2] and found[1].startswith(opened[0]):
            yield Block(opened[1], opened[2], offset)
            opened = None
        offset += len(line)
    if opened:
        yield Block(opened[1], opened[2], len(text))


def unfence(edits: Edits, words: tuple[str, ...]) -> bool:
    """Remove the fence of the only block with one of these words, and the text around it.

    Returns false if there is no block. Raises `CannotRepair` if there are several.
    """
    found = [block for block in blocks(edits.text) if block.word in words]
    if len(found) > 1:
        line = edits.line_at(found[1].start) - 1
        raise CannotRepair(f"The text has {len(found)} fenced blocks; only one can be taken", line)
    for block in found:
        cut(edits, block.start, block.end, "the fence and the text around it removed")
    return bool(found)


def cut(edits: Edits, start: int, end: int, reason: str) -> None:
    """Keep a part of the text only."""
    edits.replace(end, len(edits.text), "", reason)
    edits.replace(0, start, "", reason)
