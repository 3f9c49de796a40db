"""Unified diffs as models write them: counts and line numbers are not trusted, signs are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pipecatapp.tools.code.edit.reading.blocks import Bad, Block, Hunk, Hunks, Sign
from pipecatapp.tools.code.edit.refusal import Refused

HUNK: Final = re.compile(
    r"@@+ ?(?:-(?P<start>\d+)(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? ?@@+|(?:\.\.\. ?)?@@*)?"
    r" ?(?P<heading>.*)"
)
INDEX: Final = re.compile(r"index ([0-9a-f]{7,64})\.\.[0-9a-f]{7,64}")
SIGNS: Final[dict[str, Sign]] = {" ": " ", "-": "-", "+": "+"}
UNSUPPORTED: Final = (
    "rename from ", "rename to ", "copy from ", "copy to ", "old mode ", "new mode ",
    "Binary files ", "GIT binary patch",
)  # fmt: skip


def begins(lines: Sequence[str], number: int) -> bool:
    """Whether a diff of a file begins on this line."""
    if lines[number].startswith("diff --git "):
        return True
    after = lines[number + 1] if number + 1 < len(lines) else ""
    return lines[number].startswith("--- ") and after.startswith("+++ ")


@dataclass
class _File:
    """The parsed lines of one file's part of a diff."""

    at: int
    path: str
    old: str = ""
    new: str = ""
    blob: str = ""
    hunks: list[Hunk] = field(default_factory=list)

    def block(self) -> Block:
        """The finished edit."""
        try:
            path = self._path()
            if not self.hunks:
                raise Refused("malformed", "The diff has no changed lines.")
            creates, deletes = self.old == "/dev/null", self.new == "/dev/null"
            return Hunks(path, self.at, "diff", tuple(self.hunks), self.blob, creates, deletes)
        except Refused as error:
            error.at = error.at or self.at
            return Bad(self.new or self.path, self.at, error)

    def _path(self) -> str:
        old, new = self.old, self.new
        if not old and not new:
            if not self.path:
                raise Refused("no_path", "The diff names no file: begin it with `--- a/` `+++ b/`.")
            return self.path
        if _prefixed(old, "a/") and _prefixed(new, "b/"):
            old, new = old.removeprefix("a/"), new.removeprefix("b/")
        if "/dev/null" in (old, new):
            return new if old == "/dev/null" else old
        if old != new:
            raise Refused("unsupported", f"The diff renames {old!r} to {new!r}; edits do not.")
        return new


def _prefixed(path: str, prefix: str) -> bool:
    return path.startswith(prefix) or path == "/dev/null"


def parse_diff(
    lines: Sequence[str], first: int, *, fenced: bool, path: str = ""
) -> tuple[list[Block], int]:
    """Read the diffs that begin on line `first` (from 0); gives them and the line behind them.

    In a fence every line belongs to the diff. Without one, the diff ends at the first line that is
    neither a header nor a signed line; then the counts of the last hunk have to be right, because
    nothing else tells a line that lost its sign from the text behind the diff.
    """
    reader = _Reader(lines, fenced=fenced, path=path)
    try:
        end = reader.read(first)
    except Refused as error:
        at = error.at or first + 1
        error.at = at
        return [Bad(path, at, error)], len(lines) if fenced else _behind(lines, first)
    return reader.blocks, end


def _behind(lines: Sequence[str], first: int) -> int:
    """The line behind a diff that cannot be read: all that could belong to it is skipped."""
    last = max(
        (number for number in range(first, len(lines)) if lines[number][:1] in ("+", "-", "@")),
        default=first,
    )
    return last + 1


class _Reader:
    def __init__(self, lines: Sequence[str], *, fenced: bool, path: str) -> None:
        self.lines, self.fenced, self.path = lines, fenced, path
        self.blocks: list[Block] = []
        self._file: _File | None = None

    def read(self, number: int) -> int:
        while number < len(self.lines):
            line = self.lines[number]
            if line.startswith("@@"):
                number = self._hunk(number, HUNK.match(line))
            elif begins(self.lines, number) or self._header(line):
                number = self._heading(number)
            elif self.fenced and line[:1] in SIGNS and (self._file or self.path):
                number = self._hunk(number - 1, None)
            elif self.fenced and not line.strip():
                number += 1
            elif self.fenced:
                raise Refused("malformed", f"{line[:60]!r} is not a line of a diff.", at=number + 1)
            else:
                break
        if self._file is not None:
            self.blocks.append(self._file.block())
        return number

    def _header(self, line: str) -> bool:
        names = ("--- ", "+++ ", "index ", "new file mode ", "deleted file mode ", "similarity ")
        return self._file is not None and line.startswith((*names, *UNSUPPORTED))

    def _heading(self, number: int) -> int:
        line = self.lines[number]
        if line.startswith(UNSUPPORTED):
            raise Refused(
                "unsupported", "Edits do not rename files or change modes.", at=number + 1
            )
        started = self._file is not None and not self._file.hunks and not self._file.old
        if begins(self.lines, number) and not (line.startswith("--- ") and started):
            if self._file is not None:
                self.blocks.append(self._file.block())
            self._file = _File(number + 1, self.path)
        file = self._file
        assert file is not None
        if line.startswith("--- "):
            file.old = _named(line)
        elif line.startswith("+++ "):
            file.new = _named(line)
        elif found := INDEX.match(line):
            file.blob = found[1]
        return number + 1

    def _hunk(self, number: int, header: "re.Match[str] | None") -> int:
        """Read a hunk whose header is on line `number`."""
        if self._file is None:
            self._file = _File(number + 1, self.path)
        at, number = number + 1, number + 1
        signed: list[tuple[Sign, str]] = []
        blank = 0
        final: bool | None = None
        while number < len(self.lines) and not self._ends(number):
            line = self.lines[number]
            if line.startswith("\\"):
                final = _final(signed, final)
            elif line[:1] in SIGNS:
                signed.append((SIGNS[line[0]], line[1:]))
            else:
                signed.append((" ", ""))
            blank = blank + 1 if not line else 0
            number += 1
        signed = signed[: len(signed) - blank]
        if not self.fenced:
            self._check_counts(number, header, signed)
        if not any(sign != " " for sign, _ in signed):
            raise Refused("no_op", "A hunk of the diff changes nothing.", at=at)
        start = int(header["start"]) if header and header["start"] else None
        heading = header["heading"] if header else ""
        self._file.hunks.append(Hunk(tuple(signed), at, heading, start, final))
        return number

    def _ends(self, number: int) -> bool:
        line = self.lines[number]
        if line.startswith(("@@", "diff --git ")):
            return True
        if line.startswith("--- ") and begins(self.lines, number):
            after = self.lines[number + 2] if number + 2 < len(self.lines) else ""
            return after.startswith("@@")
        if not line or line[0] in SIGNS or line[0] == "\\":
            return False
        if self.fenced:
            raise Refused(
                "malformed",
                f"A line of the diff has no sign: {line[:60]!r}. Begin each with ' ', '-' or '+'.",
                at=number + 1,
            )
        return True

    def _check_counts(
        self, number: int, header: "re.Match[str] | None", signed: Sequence[tuple[Sign, str]]
    ) -> None:
        if number >= len(self.lines) or self._continues(number):
            return
        counts = [sum(sign != "+" for sign, _ in signed), sum(sign != "-" for sign, _ in signed)]
        stated = [int(header[name] or 1) for name in ("old", "new")] if header and header[
            "start"] else []  # fmt: skip
        if counts != stated:
            raise Refused(
                "malformed",
                "It is not certain where the diff ends: put it into a fence, ```diff.",
                at=number + 1,
            )

    def _continues(self, number: int) -> bool:
        return self.lines[number].startswith(("@@", "diff --git ", "--- "))


def _named(line: str) -> str:
    """The path of a `---` or `+++` line, without a timestamp."""
    return line[4:].partition("\t")[0].strip()


def _final(signed: Sequence[tuple[Sign, str]], final: bool | None) -> bool | None:  # noqa: FBT001
    """Return whether the changed file ends with a newline, given `\\ No newline at end of file`."""
    sign = signed[-1][0] if signed else " "
    if sign == "-":
        return True if final is None else final
    return False
