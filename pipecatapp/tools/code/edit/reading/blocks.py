"""The edits that an answer can hold."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipecatapp.tools.code.edit.refusal import Refused

Format = Literal["symbol", "whole_file", "search_replace", "diff"]
Sign = Literal[" ", "-", "+"]
COMPARED: Final = 4_000_000
"""Line pairs of one SEARCH/REPLACE block that are compared; a larger one replaces all its lines."""


@dataclass(frozen=True)
class Hunk:
    """Lines to keep, remove and add, as in a unified diff. No line has a line end."""

    lines: tuple[tuple[Sign, str], ...]
    at: int
    """Line of the answer, counted from 1."""
    heading: str = ""
    """The text after the second `@@`: the header of the definition that contains the lines."""
    start: int | None = None
    """The stated first line of the file, counted from 1. Trusted only with the right blob id."""
    final_newline: bool | None = None
    """Whether the file ends with a line end afterwards; None keeps what is there."""
    stripped: bool = False
    """Whether the first line may have lost its indentation (SEARCH/REPLACE only)."""

    @property
    def search(self) -> list[str]:
        """The lines to find."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def added(self) -> list[str]:
        """The new lines."""
        return [text for sign, text in self.lines if sign == "+"]


@dataclass(frozen=True)
class WholeFile:
    """All lines of a file."""

    path: str
    at: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class SymbolEdit:
    """The whole source of one function, method or class."""

    path: str
    at: int
    symbol: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Hunks:
    """Hunks of one file: a file's part of a unified diff, or a SEARCH/REPLACE block."""

    path: str
    at: int
    format: Literal["search_replace", "diff"]
    hunks: tuple[Hunk, ...]
    blob: str = ""
    """The abbreviated id of the file's blob before the change, in hex, as git states it."""
    creates: bool = False
    deletes: bool = False


@dataclass(frozen=True)
class Bad:
    """An edit that cannot even be read."""

    path: str
    at: int
    error: Refused


Block = WholeFile | SymbolEdit | Hunks | Bad


def search_replace(path: str, at: int, search: Sequence[str], replace: Sequence[str]) -> Hunks:
    """Express a SEARCH/REPLACE block as a hunk: lines that both sides have are kept."""
    if not any(line.strip() for line in search):
        if search:
            raise Refused("empty_search", "The SEARCH part contains only blank lines.", at=at)
        added: tuple[tuple[Sign, str], ...] = tuple(("+", line) for line in replace)
        return Hunks(path, at, "search_replace", (Hunk(added, at),), creates=True)
    return Hunks(path, at, "search_replace", (Hunk(_signed(search, replace), at, stripped=True),))


def _signed(search: Sequence[str], replace: Sequence[str]) -> tuple[tuple[Sign, str], ...]:
    if len(search) * len(replace) > COMPARED:
        return (*(("-", line) for line in search), *(("+", line) for line in replace))
    signed: list[tuple[Sign, str]] = []
    matcher = difflib.SequenceMatcher(None, search, replace, autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "equal":
            signed += [(" ", line) for line in search[first:last]]
            continue
        signed += [("-", line) for line in search[first:last]]
        signed += [("+", line) for line in replace[new_first:new_last]]
    return tuple(signed)
