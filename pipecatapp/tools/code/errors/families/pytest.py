"""Output of pytest, in any of its traceback styles.

    output  = { any line } { section }
    section = "==== FAILURES ====" or "==== ERRORS ====" { failure }
            | "==== short test summary info ====" { "FAILED id[ - message]" | "ERROR id[ - ...]" }
    failure = "____ name ____" { entry | chain } [ "---- Captured ... ----" ... ]
    entry   = source lines, of which "    def S(" names the function, { "E   " message }
              "file:N: type"                    (--tb=long)
            | "file:N: in S" source lines       (--tb=short), "E   " message after the last
            | traceback of Python               (--tb=native)
    chain   = "The above exception ..." or "During handling ..."

The first failure counts. An error while a conftest is loaded is a failure without a title.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pipecatapp.tools.code.errors.families import python
from pipecatapp.tools.code.errors.lines import Output, location, title
from pipecatapp.tools.code.errors.result import Frame, ProgramError, frame, program_error

SUMMARY: Final = "short test summary info"
LINKS: Final = ("The above exception was the direct cause", "During handling of the above exce")
CONFTEST: Final = "ImportError while loading conftest "


def parse(output: Output) -> ProgramError | None:
    """Return the first failure."""
    failure = list(first_failure(output.stdout))
    name = title(failure[0], "_") if failure else None
    if failure and (error := Failure(failure).error(name)):
        return error
    return _summary(output.stdout) or _conftest(output.stderr) or _nothing_run(output)


def first_failure(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the first failure, its title first if it has one."""
    inside = False
    titles = 0
    for line in lines:
        section = title(line, "=")
        if section in ("FAILURES", "ERRORS"):
            inside = True
        elif inside and (section is not None or _captured(line)):
            return
        elif inside:
            titles += title(line, "_") is not None
            if titles > 1:
                return
            yield line


class Failure:
    """The entries of one failure."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)
        self.frames: list[Frame] = []
        self.message: list[str] = []
        """Lines after `E`."""
        self.type = ""
        self._symbol: str | None = None
        for line in self.lines:
            self._read(line)

    def _read(self, line: str) -> None:
        if line.startswith(LINKS):
            self.frames, self.message, self.type, self._symbol = [], [], "", None
        elif line.startswith("E ") or line == "E":
            self.message.append(line[1:])
        elif line.startswith((" ", ">")):
            self._symbol = self._symbol or _function(line)
        elif line.startswith("file ") and ", line " in line:
            self._symbol = None
        elif place := location(line):
            self._entry(place.file, place.line, place.rest)

    def _entry(self, file: str, line: int, rest: str) -> None:
        if rest.startswith("in "):
            self.frames.append(frame(file, line, rest[3:]))
        else:
            self.frames.append(frame(file, line, self._symbol))
            self.type = rest.partition(":")[0].strip()
        self._symbol = None

    def error(self, name: str | None) -> ProgramError | None:
        """Return it as data; `name` is the title."""
        symbol = (name or "").removeprefix("ERROR at setup of ").rpartition(".")[2] or None
        if symbol and (" " in symbol or name is None):
            symbol = None
        if not self.message:
            block = python.last_block(self.lines)
            return block.error() if block else None
        text = textwrap.dedent("\n".join(self.message)).strip("\n")
        if block := python.last_block(text.split("\n")):  # a SyntaxError shows its file
            return program_error(block.type, block.message, [*self.frames, *block.frames])
        kind, message = self._exception(text)
        return program_error(kind, message, self.frames, symbol=symbol)

    def _exception(self, text: str) -> tuple[str, str]:
        """Separate the type from the message, which may lack it."""
        first, _, more = text.partition("\n")
        exception = python.EXCEPTION.match(first)
        if exception and (not self.type or exception[1].rpartition(".")[2] == self.type):
            return exception[1], "\n".join([exception[2] or "", *([more] if more else [])])
        if first.startswith("fixture "):
            return "FixtureLookupError", first
        return self.type or "AssertionError", text


def _function(line: str) -> str | None:
    """Return the name of the function that a source line begins."""
    words = line.lstrip("> ").removeprefix("async ")
    return words[4:].partition("(")[0].strip() if words.startswith("def ") else None


def _captured(line: str) -> bool:
    name = title(line, "-")
    return name is not None and name.startswith("Captured ")


def _summary(lines: Sequence[str]) -> ProgramError | None:
    """Read the first line of the summary."""
    inside = False
    for line in lines:
        inside = inside or title(line, "=") == SUMMARY
        if inside and line.startswith(("FAILED ", "ERROR ")):
            test, _, text = line.partition(" ")[2].partition(" - ")
            file, *names = test.split("::")
            symbol = names[-1].partition("[")[0] if names else None
            exception = python.EXCEPTION.match(text)
            if exception and exception[2] is not None:
                return program_error(exception[1], exception[2], [frame(file, None, symbol)])
            kind = "AssertionError" if text.startswith("assert ") else "Failed"
            return program_error(kind, text, [frame(file, None, symbol)])
    return None


def _conftest(lines: Sequence[str]) -> ProgramError | None:
    for index, line in enumerate(lines):
        if line.startswith(CONFTEST):
            return Failure(lines[index + 1 :]).error(None)
    return None


def _nothing_run(output: Output) -> ProgramError | None:
    """Read a wrong command line, or that there are no tests."""
    if not any(line.startswith("no tests ran in ") for line in output.stdout):
        return None
    for line in output.stderr:
        if line.startswith("ERROR: "):
            return program_error("UsageError", line.removeprefix("ERROR: "))
    return program_error("NoTests", "no tests ran")
