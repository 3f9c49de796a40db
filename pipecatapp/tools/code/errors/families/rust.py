"""Messages of rustc and cargo, and panics.

    output  = { any line | message | panic }
    message = "error" [ "[E....]" ] ": " text [ arrow ] { source } { note }
            | "error: " text { blank "Caused by:" { "  " cause } }       (cargo)
            | "error: linking with ..." { note }, of which one has the message of the linker
    arrow   = "  --> F:N:C"
    source  = [ N ] " | " code, or markers "^^^^ label"
    panic   = "thread 'S' [(id)] panicked at F:N:C:" text { more } [ "stack backtrace:" { entry } ]
    entry   = "  N: S" [ "     at F:N:C" ]

The first error counts; the summaries of cargo count only if there is nothing else.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipecatapp.tools.code.errors.lines import Output, location
from pipecatapp.tools.code.errors.result import Frame, ProgramError, frame, program_error

MESSAGE: Final = re.compile(r"error(?:\[(E\d{1,6})\])?: (.*)")
PANIC: Final = re.compile(r"thread '([^']*)' (?:\(\d+\) )?panicked at (.*)")
ENTRY: Final = re.compile(r" +\d+: (.+)")
HASH: Final = re.compile(r"::h[0-9a-f]{16}$")
SUMMARIES: Final = (
    "aborting due to ", "could not compile ", "test failed", "doctest failed", "build failed"
)  # fmt: skip
LINKING: Final = "linking with "
LINKER: Final = (": error: ", "undefined reference to ", "cannot find ")
NAMELESS: Final = ("main", "<unnamed>")
"""Threads whose name says nothing; that of a test is its function."""
SOURCE: Final = 60
"""Lines of a message."""
STACK: Final = 300
"""Lines of a backtrace."""


def parse(output: Output) -> ProgramError | None:
    """Return the first error or panic, else what cargo says in the end."""
    summary = None
    for lines in output.streams:
        for index, line in enumerate(lines):
            if panic := PANIC.match(line):
                return _panic(lines, index, panic[1], panic[2])
            if match := MESSAGE.match(line):
                if not match[2].startswith(SUMMARIES):
                    return _message(lines, index, match[1], match[2])
                summary = summary or program_error("error", match[2])
    return summary


def _message(lines: Sequence[str], index: int, code: str | None, text: str) -> ProgramError:
    block = list(_block(lines, index + 1))
    if text.startswith(LINKING):
        note = next((line for line in block if any(mark in line for mark in LINKER)), text)
        return program_error("link", note.rpartition(" error: ")[2].strip())
    arrow = next((line for line in block[:3] if line.lstrip().startswith("--> ")), "")
    if place := location(arrow.partition("--> ")[2]):
        label = _label(block)
        message = f"{text}: {label}" if label else text
        return program_error(code or "error", message, [frame(place.file, place.line)])
    return program_error(code or "error", "\n".join([text, *_causes(lines, index + 1)]))


def _block(lines: Sequence[str], index: int) -> Iterator[str]:
    """Yield the lines of a message up to a blank one."""
    for line in lines[index : index + SOURCE]:
        if not line.strip():
            return
        yield line


def _label(block: Sequence[str]) -> str:
    """Return the words after the first marker of the place itself."""
    for line in block:
        _, bar, marked = line.partition(" | ")
        if bar and marked.lstrip(" |").startswith("^"):
            label = marked.lstrip(" |").lstrip("^-").strip()
            return "" if label.startswith("help: ") else label
    return ""


def _causes(lines: Sequence[str], index: int) -> Iterator[str]:
    """Yield what follows a message of cargo: its other lines, and its causes."""
    for at in range(index, min(index + SOURCE, len(lines))):
        line = lines[at]
        if not line and lines[at + 1 : at + 2] != ["Caused by:"]:
            return
        if line and line != "Caused by:":
            yield line.strip()


def _panic(lines: Sequence[str], index: int, thread: str, at: str) -> ProgramError:
    """Read a panic; before Rust 1.73 the message is quoted, with its place behind it."""
    quoted, _, last = at.rpartition("', ")
    place = location(last)
    message = [quoted.removeprefix("'")] if quoted else []
    end = index + 1
    while not quoted and end < len(lines) and end - index < SOURCE and not _ends(lines[end]):
        message.append(lines[end])
        end += 1
    frames = _backtrace(lines, end)
    if place and not any(entry.own for entry in frames):
        frames.insert(0, frame(place.file, place.line))
    symbol = None if thread in NAMELESS else thread
    return program_error("panic", "\n".join(message), frames, symbol=symbol)


def _ends(line: str) -> bool:
    return line == "stack backtrace:" or not line or line.startswith("note: run with `RUST_")


def _backtrace(lines: Sequence[str], index: int) -> list[Frame]:
    frames: list[Frame] = []
    symbol = None
    for line in lines[index : index + STACK]:
        if not line.strip():
            break
        if match := ENTRY.match(line):
            symbol = HASH.sub("", match[1])
        elif line.lstrip().startswith("at ") and (place := location(line.lstrip()[3:])):
            frames.append(frame(place.file, place.line, symbol))
    return frames[::-1]
