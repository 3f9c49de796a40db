"""The lines of an output, and the forms that several kinds of programs share."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

WIDTH: Final = 4000
"""Characters of a line that parsers look at."""
CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""A colour or another command to a terminal."""


@dataclass(frozen=True)
class Output:
    """The lines of both streams, without colours and line ends."""

    stdout: list[str]
    stderr: list[str]

    @property
    def streams(self) -> tuple[list[str], list[str]]:
        """Return both, the more likely one first."""
        return self.stderr, self.stdout


class Location(NamedTuple):
    """The parts of a line `file:line[:column]: rest`."""

    file: str
    line: int
    rest: str


def lines_of(text: str) -> list[str]:
    """Split a text into lines."""
    if "\x1b" in text:
        text = CONTROL.sub("", text)
    return [line.rstrip("\r")[:WIDTH] for line in text.split("\n")]


def location(line: str) -> Location | None:
    """Read `file:line: rest` or `file:line:column: rest`; the rest may be missing."""
    start = line.find(":")
    while start > 0:
        end = start + 1
        while end < len(line) and line[end].isdecimal() and line[end].isascii():
            end += 1
        if 1 < end - start < 12 and (end == len(line) or line[end] == ":"):
            column, _, rest = line[end + 1 :].partition(":")
            if not _number(column):
                rest = line[end + 1 :]
            return Location(line[:start], int(line[start + 1 : end]), rest.strip())
        start = line.find(":", end)
    return None


def title(line: str, mark: str) -> str | None:
    """Return the words of a line such as `==== FAILURES ====`."""
    if not line.startswith(mark * 2) or not line.endswith(mark * 2):
        return None
    words = line.strip(mark)
    return words.strip() if words.startswith(" ") and words.endswith(" ") else None


def number(text: str) -> int | None:
    """Return a line number."""
    return int(text) if _number(text) else None


def _number(text: str) -> bool:
    return 0 < len(text) < 12 and text.isascii() and text.isdecimal()
