"""Uncaught errors of Node.js, and its test runner.

    output = { any line | crash | test }
    crash  = [ "F:N" source caret ] header { message line } { "    at S (F:N:C)" | "    at F:N:C" }
    header = "[Uncaught ]Type[ [CODE]]: message"
    thrown = "F:N" source caret value "(Use `node --trace-uncaught ..."
    test   = "not ok N - name" "  ---" { "  key: value" | "  key: |-" { deeper line } } "  ..."

The last crash that is not indented counts: indented ones are causes. Of tests the first counts.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipecatapp.tools.code.errors.lines import Output, location
from pipecatapp.tools.code.errors.result import Frame, ProgramError, frame, program_error

HEADER: Final = re.compile(r"(?:Uncaught )?([A-Z][\w$.]*)(?: \[(\w+)\])?(?:: (.*))?$")
UNCAUGHT: Final = "(Use `node --trace-uncaught"
ABOVE: Final = 40
"""Lines that a message can have."""
FACTS: Final = 300
"""Lines that the block of a test can have."""


def parse(output: Output) -> ProgramError | None:
    """Return the first failed test, or the error that ended the program."""
    if error := _test(output.stdout):
        return error
    for lines in output.streams:
        if error := _crash(lines) or _thrown(lines):
            return error
    return None


def _crash(lines: Sequence[str]) -> ProgramError | None:
    """Return the last uncaught error; one that is indented only if there is no other."""
    chosen: tuple[bool, ProgramError] | None = None
    for start, end in _stacks(lines):
        header = _header(lines, start)
        if header is None:
            continue
        plain = not lines[header].startswith(" ")
        if chosen is None or plain:
            chosen = plain, _error(lines, header, start, end)
    return chosen[1] if chosen else None


def _stacks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index (exclusive) of each run of frames."""
    start = None
    for index, line in enumerate(lines):
        inside = _frame(line) is not None
        if inside and start is None:
            start = index
        elif not inside and start is not None:
            yield start, index
            start = None
    if start is not None:
        yield start, len(lines)


def _frame(line: str) -> Frame | None:
    text = line.strip().rstrip(" {,")
    if not text.startswith("at "):
        return None
    symbol, _, place = text[3:].rpartition(" (")
    if not place.endswith(")"):
        symbol, place = "", text[3:]
    found = location(place.rstrip(")"))
    if found is None:
        return None
    symbol = symbol.removeprefix("async ").removeprefix("new ").partition(" [as ")[0]
    return frame(found.file.removeprefix("async "), found.line, symbol or None)


def _header(lines: Sequence[str], start: int) -> int | None:
    """Return the index of the line with the type; it is above the frames."""
    found = None
    for index in range(start - 1, max(-1, start - ABOVE), -1):
        if _frame(lines[index]) or lines[index].startswith("Emitted "):
            break
        match = HEADER.match(lines[index].strip())
        if match and match[1].endswith(("Error", "Exception", "Rejection")):
            return index
        if match and found is None:
            found = index
    return found


def _error(lines: Sequence[str], header: int, start: int, end: int) -> ProgramError:
    match = HEADER.match(lines[header].strip())
    kind, message = (match[1], match[3] or "") if match else ("Error", lines[header])
    message = "\n".join([message, *lines[header + 1 : start]]).rstrip()
    stack = (_frame(line) for line in lines[start:end])
    frames = [one for one in stack if one][::-1]
    if kind == "SyntaxError" or not any(one.own for one in frames):
        frames += _head(lines, header) or _importer(message)
    return program_error(kind, message, frames)


def _head(lines: Sequence[str], below: int) -> list[Frame]:
    """Return the place above the source line."""
    for line in lines[max(0, below - 5) : below]:
        place = location(line)
        if place and not place.rest and not place.file.startswith("node:"):
            return [frame(place.file, place.line)]
    return []


def _importer(message: str) -> list[Frame]:
    """Return the file that imports a missing module."""
    _, found, file = message.partition(" imported from ")
    return [frame(file.split("\n")[0])] if found else []


def _thrown(lines: Sequence[str]) -> ProgramError | None:
    """Parse a thrown value that is not an `Error`; return None if there is none."""
    for index, line in enumerate(lines):
        if index and line.startswith(UNCAUGHT):
            return program_error("Uncaught", lines[index - 1], _head(lines, index))
    return None


def _test(lines: Sequence[str]) -> ProgramError | None:
    """Read the first failed test of TAP version 13."""
    for index, line in enumerate(lines):
        if line.lstrip().startswith("not ok "):
            facts = _facts(lines, index)
            if "exitCode" in facts and (crash := _crash(_printed(lines[:index]))):
                return crash
            if "error" in facts:
                return _failed(facts, line.partition(" - ")[2])
    return None


def _printed(lines: Sequence[str]) -> list[str]:
    """Return what a test file printed that ended with an error: the comments above its result."""
    return [line.removeprefix("# ") for line in lines if line.startswith("# ")]


def _failed(facts: dict[str, list[str]], name: str) -> ProgramError:
    stack = [_frame(f"at {line.strip()}") for line in facts.get("stack", [])]
    frames = [one for one in stack if one][::-1]
    if not frames and (place := location("".join(facts.get("location", [])))):
        frames = [frame(place.file, place.line, name)]
    kind = "".join(facts.get("name", [])) or "Error"
    return program_error(kind, "\n".join(facts["error"]), frames, symbol=name)


def _facts(lines: Sequence[str], test: int) -> dict[str, list[str]]:
    """Read the block below the line of a test: between `---` and `...`, deeper than that line."""
    facts: dict[str, list[str]] = {}
    begin = lines[test + 1] if test + 1 < len(lines) else ""
    indent, name = _indent(begin), ""
    if begin.strip() != "---" or indent <= _indent(lines[test]):
        return facts
    for at in range(test + 2, min(test + FACTS, len(lines))):
        line = lines[at]
        if line[:indent].strip() or (line.strip() == "..." and line.startswith(" " * indent)):
            break
        key, colon, value = line.strip().partition(":")
        if colon and line[indent : indent + 1] not in ("", " "):
            name = key
            value = value.strip()
            facts.setdefault(name, [] if value.startswith(("|", ">")) else [value.strip("'\"")])
        elif name:
            facts[name].append(line[indent + 2 :])
    return facts


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
