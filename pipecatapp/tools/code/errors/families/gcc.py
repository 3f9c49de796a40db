"""Messages of gcc, clang and the linker, of assert() and of the address sanitizer.

    output     = { any line | scope | included | required | diagnostic | link | assertion | report }
    scope      = "F: In function 'S':"
    included   = "In file included from F:N[:C]," { "   from F:N[:C]" }
    required   = "F:N:C:   required from here"        (templates, the innermost first)
    diagnostic = ["F:N:C: "|"cc1: "] ["fatal "]"error: message"
    link       = "ld: O: in function `S':" | "F:[N|(section)]: undefined reference to `S'"
               | "ld: O: multiple definition of ..." | "ld: cannot find ..."
    assertion  = "program: F:N: S: Assertion `...' failed."
    report     = "==P==ERROR: AddressSanitizer: type ..." { any line } { "#N 0x... in S F:N[:C]" }

The first error counts; warnings and notes do not.
"""

from collections.abc import Sequence
from typing import Final

from pipecatapp.tools.code.errors.lines import Location, Output, location
from pipecatapp.tools.code.errors.result import Frame, ProgramError, frame, program_error

KINDS: Final = ("error: ", "fatal error: ")
LINK: Final = ("undefined reference to ", "multiple definition of ", "cannot find ")
OPEN, CLOSE = "\N{LEFT SINGLE QUOTATION MARK}'`", "\N{RIGHT SINGLE QUOTATION MARK}'"
COMPILERS: Final = ("cc", "cc1", "cc1plus", "gcc", "g++", "c++", "clang", "clang++")
"""Other programs, such as those with argparse, also print `name: error: message`."""
SANITIZER: Final = "Sanitizer: "
STACK: Final = 100
"""Lines after the head of a report that can have frames."""


def parse(output: Output) -> ProgramError | None:
    """Return the first error of a compiler, or of a program that it made."""
    for lines in output.streams:
        reader = Reader()
        for index, line in enumerate(lines):
            if error := reader.read(line) or _report(lines, index):
                return error
    return None


class Reader:
    """Reads line by line, and knows the function and the files around the next message."""

    def __init__(self) -> None:
        self._symbol: str | None = None
        self._around: list[Frame] = []
        """Where the next message comes from, innermost first."""

    def read(self, line: str) -> ProgramError | None:
        """Read a line; return the error if it is one."""
        if line.startswith("In file included from ") or line.lstrip().startswith("from "):
            self._included(line)
        elif self._scope(line):
            pass
        elif place := location(line):
            return self._at(place)
        elif error := _link(line, self._symbol):
            return error
        else:
            program, _, text = line.partition(": ")
            if program.rpartition("/")[2] in COMPILERS and text.startswith(KINDS):
                kind, _, message = text.partition(": ")
                return program_error(kind, message)
        return None

    def _included(self, line: str) -> None:
        if line.startswith("In file"):
            self._around = []
        words = line.rpartition("from ")[2].rstrip(",:")
        if place := location(words):
            self._around.append(frame(place.file, place.line))

    def _scope(self, line: str) -> bool:
        """Read the line that names the function."""
        if not line.endswith(":"):
            return False
        if ": In " in line or ": in function `" in line:
            self._symbol = _quoted(line)
            return True
        if line.endswith(("At top level:", "At global scope:")):
            self._symbol = None
            return True
        return False

    def _at(self, place: Location) -> ProgramError | None:
        kind, _, message = place.rest.partition(": ")
        if f"{kind}: " in KINDS:
            here = frame(place.file, place.line, self._symbol)
            return program_error(kind, message, [*reversed(self._around), here])
        if place.rest.startswith("required from"):
            self._around.insert(0, frame(place.file, place.line))
        if "Assertion `" in place.rest and place.rest.endswith(" failed."):
            symbol, _, message = place.rest.partition(": ")
            file = place.file.rpartition(": ")[2]
            return program_error("Assertion", message, [frame(file, place.line, _name(symbol))])
        if place.rest.startswith(LINK):
            file = place.file.rpartition(": ")[2]
            return program_error("link", place.rest, [frame(file, place.line, self._symbol)])
        return None


def _link(line: str, symbol: str | None) -> ProgramError | None:
    """Read a message of the linker that has no line number."""
    for message in LINK:
        before, found, after = line.partition(message)
        if not found or not (before.endswith(": ") or ": " in before):
            continue
        name = before.rpartition("(")[0].rstrip(":").rpartition(" ")[2]
        frames = [frame(name, None, symbol)] if name and not name.endswith((".o", "ld")) else []
        return program_error("link", f"{message}{after}", frames)
    return None


def _quoted(line: str) -> str | None:
    """Return the name of a function between quotes."""
    start = next((index for index, char in enumerate(line) if char in OPEN), -1)
    end = next((index for index in range(len(line) - 1, -1, -1) if line[index] in CLOSE), -1)
    return _name(line[start + 1 : end]) if 0 <= start < end else None


def _name(declaration: str) -> str | None:
    """Reduce `int shop::total(int) const [with T = int]` to `shop::total`."""
    before, call, _ = declaration.partition("operator()")
    words = (before if call else before.partition("(")[0]).split()
    return f"{words[-1]}{call}".lstrip("*&") or None if words else None


def _report(lines: Sequence[str], index: int) -> ProgramError | None:
    """Parse the report of a sanitizer that starts at this line."""
    before, _, text = lines[index].partition(SANITIZER)
    if not text or "ERROR: " not in before:
        return None
    kind = text.partition(" ")[0]
    frames: list[Frame] = []
    for entry in lines[index + 1 : index + STACK]:
        words = entry.split()
        if not words and frames:
            break
        if len(words) > 4 and words[0].startswith("#") and words[2] == "in":
            place = location(words[-1])
            file = place.file if place else words[-1].strip("()")
            frames.append(frame(file, place.line if place else None, words[3]))
    return program_error(kind, text.partition(" at pc ")[0], frames[::-1])
