"""Messages of the go command and its compiler, panics, and failed tests.

    output  = { any line | message | crash | test }
    message = [ "vet: " ] "F.go:N:C: text" { tab more } | "go: text"
    crash   = ( "panic: " | "fatal error: " ) text { more } blank "goroutine N [state]:"
              { "S(arguments)" tab "F:N[ +0x...]" } blank
    test    = "=== RUN   S" { log } { "--- FAIL: S (seconds)" }     (-v)
            | { "--- FAIL: S (seconds)" { log } }
    log     = "    F.go:N: text" { deeper line }

The first message or crash counts, else the first failed test that says something.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pipecatapp.tools.code.errors.lines import Output, location
from pipecatapp.tools.code.errors.result import Frame, ProgramError, frame, program_error

MESSAGE: Final = re.compile(r"(?:vet: )?([^\s:]+\.go):(\d{1,9}):\d{1,9}: (.+)")
LOG: Final = re.compile(r"( +)([^\s:]+\.go):(\d{1,9}): ?(.*)")
FAILED: Final = re.compile(r" *--- FAIL: (\S+)")
RUNS: Final = re.compile(r"=== (?:RUN|CONT|NAME) +(\S+)")
CRASHES: Final = ("panic", "fatal error")
PROGRESS: Final = ("finding ", "downloading ", "found ", "upgraded ", "added ", "removed ")
"""First words of progress messages of the go command."""
MORE: Final = 20
"""Further lines of a message."""
STACK: Final = 200
"""Lines of a stack."""
LONG: Final = 4000
"""Characters of one log that are kept."""


class Log(NamedTuple):
    """A log message of a test."""

    file: str
    line: int
    text: str


def parse(output: Output) -> ProgramError | None:
    """Return the first message or crash, else the first failed test, else an error of `go`."""
    for find in (_message, _test, _command):
        for lines in output.streams:
            if error := find(lines):
                return error
    return None


def _message(lines: Sequence[str]) -> ProgramError | None:
    for index, line in enumerate(lines):
        if match := MESSAGE.match(line):
            text = [match[3], *_while(lines, index + 1, "\t")]
            return program_error("error", "\n".join(text), [frame(match[1], int(match[2]))])
        kind, _, text_of_crash = line.partition(": ")
        if kind in CRASHES and text_of_crash and (error := _crash(lines, index)):
            return error
    return None


def _while(lines: Sequence[str], index: int, indent: str) -> Iterator[str]:
    """Yield the lines from an index that begin with `indent`."""
    for line in lines[index : index + MORE]:
        if not line.startswith(indent):
            return
        yield line


def _crash(lines: Sequence[str], index: int) -> ProgramError | None:
    """Read a crash that has a stack; other programs print `panic: ` too."""
    kind, _, first = lines[index].partition(": ")
    message = [first]
    for start in range(index + 1, min(index + MORE, len(lines))):
        if lines[start].startswith("goroutine ") and lines[start].endswith("]:"):
            return program_error(kind, "\n".join(message).rstrip(), _stack(lines, start + 1))
        if not lines[start].startswith("[signal "):
            message.append(lines[start])
    return None


def _stack(lines: Sequence[str], index: int) -> list[Frame]:
    frames: list[Frame] = []
    symbol = ""
    for line in lines[index : index + STACK]:
        if not line:
            break
        if not line.startswith("\t"):
            symbol = line.removeprefix("created by ").partition(" in goroutine ")[0]
            symbol = symbol.rpartition("(")[0] if symbol.endswith(")") else symbol
        elif place := location(line.strip().partition(" +0x")[0]):
            frames.append(frame(place.file, place.line, symbol or None))
    return frames[::-1]


def _test(lines: Sequence[str]) -> ProgramError | None:
    """Return the first failed test that says something."""
    tests = Tests()
    for line in lines:
        tests.read(line)
    return tests.error()


class Tests:
    """Reads line by line which tests failed, and what each of them logged."""

    def __init__(self) -> None:
        self._failed: list[str] = []
        self._logs: dict[str, list[Log]] = {}
        self._name = ""
        self._indent = 0
        """Of the log that goes on in deeper lines; 0 after its end."""

    def read(self, line: str) -> None:
        """Read a line."""
        if failed := FAILED.match(line):
            self._failed.append(failed[1])
        if begins := failed or RUNS.match(line):
            self._name, self._indent = begins[1], 0
        elif match := LOG.match(line):
            self._indent = len(match[1])
            log = Log(match[2], int(match[3]), match[4])
            self._logs.setdefault(self._name, []).append(log)
        elif self._indent and line.startswith(" " * self._indent):
            log = self._logs[self._name][-1]
            if len(log.text) < LONG:
                self._logs[self._name][-1] = log._replace(text=f"{log.text}\n{line.strip()}")
        else:
            self._indent = 0

    def error(self) -> ProgramError | None:
        """Return the first failed test that logged anything; its last log has the place."""
        for name in self._failed:
            if logs := self._logs.get(name):
                message = "\n".join(log.text for log in logs)
                return program_error("FAIL", message, [frame(logs[-1].file, logs[-1].line, name)])
        first = self._failed[0] if self._failed else None
        return program_error("FAIL", first, symbol=first) if first else None


def _command(lines: Sequence[str]) -> ProgramError | None:
    """Read the last error of the go command itself."""
    for line in reversed(lines):
        text = line.removeprefix("go: ")
        if line.startswith("go: ") and text and not text.startswith(PROGRESS):
            return program_error("error", text)
    return None
