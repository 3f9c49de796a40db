"""Choose the definitions that belong to an error."""

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, Field

from pipecatapp.sandbox.tree import open_plain
from pipecatapp.tools.code.errors import Frame, ProgramError
from pipecatapp.tools.code.symbols import ctags
from pipecatapp.tools.code.symbols.definition import Definition
from pipecatapp.tools.code.symbols.python import python_definitions
from pipecatapp.tools.code.symbols.reading import is_python
from pipecatapp.tools.files.place import inside
from pipecatapp.workflow import Context, ToolFailed

Reason = Literal["error", "suspect", "used", "file"]

LARGEST: Final = 1 << 20
"""Bytes of a file that is read."""
LINES_AROUND: Final = 20
"""Lines before and after a line that is in no definition."""
SEARCHED: Final = 2000
"""Files that are searched for the names that a function uses."""
PARSED: Final = 40
"""Files with such a name that are parsed."""
COMMON: Final = 3
"""A name with more definitions than this says nothing about which one is used."""
WORD: Final = re.compile(r"[A-Za-z_]\w{2,}")


class Suspicious(BaseModel):
    """A place that may hold the error, such as one of code.localise."""

    file: str
    line: int | None = Field(default=None, description="A line of it; its file without one.")


@dataclass(frozen=True)
class Candidate:
    """Lines of a file, counted from 1, and why they matter."""

    path: str
    start: int
    end: int
    reason: Reason
    symbol: str = ""
    line: int | None = None
    """The line that the error names."""


class Sources:
    """The files of a workspace, each read and parsed once."""

    def __init__(self, ctx: Context, root: Path) -> None:
        self._ctx, self._root = ctx, root
        self._lines: dict[str, list[str] | None] = {}
        self._definitions: dict[str, list[Definition]] = {}

    def place(self, file: str) -> str | None:
        """The path below the workspace of a file that an error names; None for any other file."""
        try:
            place = inside(self._root, file)
        except ToolFailed:
            return None
        return place if self.lines(place) is not None else None

    def lines(self, place: str) -> list[str] | None:
        """The lines of a file; None where it is missing, too large or not UTF-8 text."""
        if place not in self._lines:
            self._lines[place] = self._read(place)
        return self._lines[place]

    def _read(self, place: str) -> list[str] | None:
        try:
            with os.fdopen(open_plain(self._root, place), "rb") as stream:
                data = stream.read(LARGEST + 1)
            return data.decode("utf-8-sig").split("\n") if len(data) <= LARGEST else None
        except (OSError, UnicodeDecodeError):
            return None

    async def definitions(self, place: str) -> list[Definition]:
        """The definitions of a file; none where it does not parse or its language is unknown."""
        if place not in self._definitions:
            self._definitions[place] = await self._parsed(place)
        return self._definitions[place]

    async def _parsed(self, place: str) -> list[Definition]:
        lines = self.lines(place)
        if lines is None:
            return []
        if is_python(place):
            try:
                return await asyncio.to_thread(python_definitions, "\n".join(lines))
            except SyntaxError:
                return []
        if not ctags.known(place):
            return []
        found = await ctags.definitions_in_files(self._ctx, self._root, [place])
        return _with_ends(found.get(place, []), len(lines))

    async def around(self, place: str, line: int | None, reason: Reason) -> Candidate:
        """The smallest definition that holds a line; else the lines next to it."""
        last = len(self.lines(place) or ())
        if line is None:
            return Candidate(place, 1, last, reason)
        holding = [
            one
            for one in await self.definitions(place)
            if one.end is not None and one.start <= line <= one.end
        ]
        if not holding:
            start, end = max(1, line - LINES_AROUND), min(last, line + LINES_AROUND)
            return Candidate(place, start, end, reason, line=line)
        one = max(holding, key=lambda one: (one.start, -(one.end or 0)))
        return Candidate(place, one.start, one.end or last, reason, one.qualified, line)


def _with_ends(definitions: Sequence[Definition], last: int) -> list[Definition]:
    """Let a definition whose end is unknown reach to the next one: enough to be read."""
    ordered = sorted(definitions, key=lambda one: one.start)
    following = [*(one.start - 1 for one in ordered[1:]), last]
    return [
        one if one.end is not None else one.model_copy(update={"end": max(one.line, end)})
        for one, end in zip(ordered, following, strict=False)  # nothing where there is none
    ]


async def candidates_of_error(sources: Sources, error: ProgramError) -> list[Candidate]:
    """The definitions on the stack in the project's own code, innermost first."""
    frames = [*error.frames]
    if error.file is not None:
        frames.append(Frame(file=error.file, line=error.line))
    found: list[Candidate] = []
    for frame in reversed(frames):
        place = sources.place(frame.file) if frame.own else None
        if place is None:
            continue
        one = await sources.around(place, frame.line, "error")
        # A call from outside any definition, such as the last line of a script, explains little.
        if one.symbol or not found:
            found.append(one)
    return found


async def candidates_of_suspects(
    sources: Sources, suspects: Sequence[Suspicious]
) -> list[Candidate]:
    """The definitions of suspects, in their order."""
    places = [(one, sources.place(one.file)) for one in suspects]
    return [await sources.around(place, one.line, "suspect") for one, place in places if place]


async def candidates_used(
    sources: Sources, files: Sequence[str], by: Sequence[Candidate]
) -> list[Candidate]:
    """Definitions of the project whose names the given ones use, in the order of their use."""
    names = dict.fromkeys(
        name for one in by for name in WORD.findall("\n".join(_lines(sources, one)))
    )
    defined: dict[str, list[Candidate]] = {}
    for place in await asyncio.to_thread(_defining, sources, files, names):
        for one in await sources.definitions(place):
            if one.name in names and one.end is not None:
                candidate = Candidate(place, one.start, one.end, "used", one.qualified)
                defined.setdefault(one.name, []).append(candidate)
    return [
        one
        for name in names
        if len(defined.get(name, ())) <= COMMON
        for one in defined.get(name, ())
    ]


def _defining(sources: Sources, files: Iterable[str], names: Iterable[str]) -> list[str]:
    """The files that look as if they define one of the names."""
    words = "|".join(map(re.escape, names))
    if not words:
        return []
    defines = re.compile(rf"(?:\b(?:def|class|func|function|fn|struct|const)\s+|^\s*)(?:{words})\b")
    found = (
        place
        for place in islice(files, SEARCHED)
        if any(map(defines.search, sources.lines(place) or ()))
    )
    return list(islice(found, PARSED))


def _lines(sources: Sources, one: Candidate) -> list[str]:
    return (sources.lines(one.path) or [])[one.start - 1 : one.end]
