"""Tracebacks of Python.

    output    = { any line | block | group }
    block     = [ "Traceback (most recent call last):" ] { frame } exception
    frame     = '  File "F", line N[, in S]' { indented line }
    exception = "type[: message]" { line }        ends at a blank line or where a block begins
    group     = a block with the margin "  | " after "  + Exception Group Traceback", then its
                members, each a block or an exception, between "+-+---- 1 ----" and "+------"

A block without a header is a SyntaxError. The last block counts: of a chain it is the exception
that was raised in the end. Of a group its first member counts, because the group names no cause.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pipecatapp.tools.code.errors.lines import Output, number
from pipecatapp.tools.code.errors.result import Frame, ProgramError, frame, program_error

HEADER: Final = "Traceback (most recent call last):"
GROUP: Final = "+ Exception Group Traceback (most recent call last):"
EXCEPTION: Final = re.compile(r"([^\W\d][\w.]*(?:<locals>[\w.]*)*)(?:: ?(.*))?$")
MARGIN: Final = re.compile(r" *[|+]")
SEPARATOR: Final = re.compile(r" *\+(-\+)?-{4,}( \S+ -+)?$")
NESTED: Final = 10
"""Groups within groups that are read."""
MORE: Final = 20
"""Further lines of a message."""
ENDS: Final = (
    HEADER, "Exception ignored", "Exception in thread", "make: ", "npm ", "error: ",
    "[end of output]",
)  # fmt: skip
"""First words of lines after a traceback that do not belong to its message."""


class Block(NamedTuple):
    """One exception with its frames."""

    type: str
    message: str
    frames: Sequence[Frame]

    def error(self) -> ProgramError:
        """Return it as data."""
        return program_error(self.type, self.message, self.frames)


def parse(output: Output) -> ProgramError | None:
    """Return the exception that ended the program."""
    for lines in output.streams:
        if block := last_block(lines):
            return block.error()
    return None


def last_block(lines: Sequence[str], depth: int = 0) -> Block | None:
    """Return the last exception of a text; one that the interpreter ignored only if alone.

    `depth` counts the groups around the text.
    """
    last, ignored, index = None, None, 0
    while index < len(lines):
        line, begin = lines[index], index
        if line.lstrip() == GROUP and depth < NESTED:
            index = _end_of_group(lines, index)
            block = _member(lines[begin:index], depth)
        elif line.lstrip() == HEADER or _is_frame(line):
            block, index = _block(lines, index)
        else:
            index += 1
            continue
        if begin and lines[begin - 1].startswith("Exception ignored"):
            ignored = block
        else:
            last = block or last
    return last or ignored


def _block(lines: Sequence[str], index: int) -> tuple[Block | None, int]:
    """Read the block that begins at a line; also return the index of the line after it."""
    indent = 0
    if lines[index].lstrip() == HEADER:
        indent = len(lines[index]) - len(HEADER)
        index += 1
    frames: list[Frame] = []
    while index < len(lines):
        line = lines[index][indent:]
        if found := _frame(line):
            frames.append(found)
        elif not line.startswith((" ", "\t")):
            break
        index += 1
    if index == len(lines) or not (exception := EXCEPTION.match(lines[index][indent:])):
        return None, index
    message, end = [exception[2] or ""], index + 1
    while end < len(lines) and end - index < MORE and _continues(lines[end]):
        message.append(lines[end][indent:])
        end += 1
    return Block(exception[1], "\n".join(message), frames), end


def _continues(line: str) -> bool:
    """Tell whether a line after an exception belongs to its message."""
    return bool(line.strip()) and not line.lstrip().startswith(ENDS) and not _is_frame(line)


def _is_frame(line: str) -> bool:
    return line.startswith('  File "')


def _frame(line: str) -> Frame | None:
    if not _is_frame(line):
        return None
    file, _, place = line[8:].partition('", line ')
    digits, _, symbol = place.partition(", in ")
    line_number = number(digits)
    return None if line_number is None else frame(file, line_number, symbol or None)


def _end_of_group(lines: Sequence[str], index: int) -> int:
    while index < len(lines) and MARGIN.match(lines[index]):
        index += 1
    return index


def _member(lines: Sequence[str], depth: int) -> Block | None:
    """Return the first exception of a group that is not itself a group."""
    sections: list[list[str]] = [[]]
    for line in lines:
        separator = SEPARATOR.match(line)
        if separator is None:
            sections[-1].append(line[len(MARGIN.match(line)[0]) + 1 :])  # type: ignore[index]
        elif separator[1] or len(sections) == 1:
            sections.append([])
        else:
            break
    members = [_section(section, depth + 1) for section in sections]
    member = next((block for block in reversed(members) if block), None)
    if member is None or member.frames:
        return member
    return member._replace(frames=next((one.frames for one in members if one), ()))


def _section(lines: list[str], depth: int) -> Block | None:
    """Read a section of a group: a block, or an exception without frames."""
    if lines and lines[0].startswith("Exception Group Traceback"):
        lines = [HEADER, *lines[1:]]
    elif lines and not any(line == HEADER or _is_frame(line) for line in lines):
        lines = [HEADER, *lines]
    return last_block(lines, depth)
