"""The text of a file as lines, so that line ends, a missing last one and a BOM survive an edit."""

import codecs
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pipecatapp.tools.code.edit.refusal import Refused

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a file that is edited."""


@dataclass(frozen=True)
class Edit:
    """Lines `start` to `end` (counted from 0, end excluded) become `lines` (without line ends)."""

    start: int
    end: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Content:
    """Lines without their ends, and the end of each; the last end is empty where it is missing."""

    lines: tuple[str, ...]
    ends: tuple[str, ...]
    bom: bool = False

    @property
    def usual_end(self) -> str:
        """The most frequent line ending."""
        counted = Counter(end for end in self.ends if end)
        return counted.most_common(1)[0][0] if counted else "\n"

    @property
    def ends_differ(self) -> bool:
        """Whether the file has both kinds of line ends."""
        return len({end for end in self.ends if end}) > 1

    @property
    def text(self) -> str:
        """The text with `\\n` as every line end."""
        return "\n".join(self.lines) + ("\n" if self.lines and self.ends[-1] else "")

    def encode(self) -> bytes:
        """The bytes of the file."""
        text = "".join(map("".join, zip(self.lines, self.ends, strict=True)))
        return (codecs.BOM_UTF8 if self.bom else b"") + text.encode()


def decode(data: bytes) -> Content:
    """Split a file into lines. Raises `Refused` for one that is not UTF-8 text."""
    if len(data) > LARGEST:
        raise Refused("too_large", f"The file has more than {LARGEST} bytes.")
    bom = data.startswith(codecs.BOM_UTF8)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise Refused("not_text", "The file is not UTF-8 text.") from None
    if "\0" in text:
        raise Refused("not_text", "The file is binary.")
    raw = text.split("\n")
    last = raw.pop()
    lines = [line.removesuffix("\r") for line in raw]
    ends = ["\r\n" if line.endswith("\r") else "\n" for line in raw]
    if last:
        lines.append(last)
        ends.append("")
    return Content(tuple(lines), tuple(ends), bom)


def made(lines: Sequence[str]) -> Content:
    """A new file."""
    return Content(tuple(lines), ("\n",) * len(lines))


def replaced(old: Content, lines: Sequence[str]) -> Content:
    """All lines of a file replaced. Raises `Refused` where the file mixes line ends."""
    if old.ends_differ:
        raise Refused(
            "line_ends", "The file mixes line ends: change it by SEARCH/REPLACE blocks or a diff."
        )
    return _finished(old, list(lines), [old.usual_end] * len(lines), None)


def edited(old: Content, edits: Iterable[Edit], *, final_newline: bool | None = None) -> Content:
    """Apply edits that do not overlap. A new line has the line end of the line that it replaces, or
    of its neighbour. Raises `Refused` where two edits change the same lines.
    """
    lines, ends = list(old.lines), list(old.ends)
    before = len(lines) + 1
    for edit in sorted(set(edits), key=lambda edit: (edit.start, edit.end), reverse=True):
        if edit.end > before or edit.start == before:
            raise Refused("overlap", f"Two edits change line {edit.end} of the file.")
        before = edit.start
        lines[edit.start : edit.end] = edit.lines
        ends[edit.start : edit.end] = [_end_at(old, edit)] * len(edit.lines)
    return _finished(old, lines, ends, final_newline)


def _end_at(old: Content, edit: Edit) -> str:
    near = old.ends[edit.start : edit.end] or old.ends[max(0, edit.start - 1) : edit.start + 1]
    return next((end for end in near if end), old.usual_end)


def _finished(
    old: Content,
    lines: list[str],
    ends: list[str],
    final_newline: bool | None,  # noqa: FBT001
) -> Content:
    if lines:
        final = bool(not old.ends or old.ends[-1]) if final_newline is None else final_newline
        ends = [end or old.usual_end for end in ends]
        ends[-1] = ends[-1] if final else ""
    return Content(tuple(lines), tuple(ends), old.bom)
