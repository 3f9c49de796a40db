"""Errors of pip and npm.

    output = { any line | pip | report | npm }
    pip    = "ERROR: " text { indented line }
    report = ["  "] "error: " name blank cross text { bar more | arrow cause }
    npm    = "npm " ( "error" | "ERR!" ) ( " code " name | " path F" | text )

Of pip the first error counts, and of several reports too: the later ones follow from it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipecatapp.tools.code.errors.lines import Output, number
from pipecatapp.tools.code.errors.result import ProgramError, frame, program_error

PIP: Final = "ERROR: "
KINDS: Final = (
    ("No matching distribution found", "DistributionNotFound"),
    ("Could not find a version", "DistributionNotFound"),
    ("Invalid requirement", "InvalidRequirement"),
    ("ResolutionImpossible", "ResolutionImpossible"),
    ("Cannot install ", "ResolutionImpossible"),
    ("Could not open requirements file", "RequirementsFileParseError"),
    ("THESE PACKAGES DO NOT MATCH THE HASHES", "HashMismatch"),
)
"""Names that pip gives to its errors in its own code."""
CONFLICT: Final = "The conflict is caused by:"
REPORT: Final = "\N{MULTIPLICATION SIGN} "
MARKS: Final = (
    " \N{MULTIPLICATION SIGN}\N{BOX DRAWINGS LIGHT VERTICAL}"
    "\N{BOX DRAWINGS LIGHT ARC UP AND RIGHT}\N{BOX DRAWINGS LIGHT HORIZONTAL}>"
)
PLACE: Final = re.compile(r"\(from line (\d{1,9}) of ([^()]+)\)")
NPM: Final = ("npm error", "npm ERR!")
SILENT: Final = (
    "code ", "path ", "errno ", "syscall ", "command ", "Log files were not written",
    "A complete log of this run", "For a full report see:", "/",
)  # fmt: skip
"""First words of npm's lines that do not belong to the message."""
MORE: Final = 20
"""Further lines of a message."""


def parse(output: Output) -> ProgramError | None:
    """Return the first error of pip, or the error of npm."""
    for lines in output.streams:
        for index, line in enumerate(lines):
            if line.startswith(PIP):
                return _pip(lines, index, output)
            if line.lstrip().startswith("error: ") and (error := _report(lines, index)):
                return error
            if line.startswith(NPM):
                return _npm(lines[index:])
    return None


def _pip(lines: Sequence[str], index: int, output: Output) -> ProgramError:
    text = lines[index].removeprefix(PIP)
    kind = next((kind for start, kind in KINDS if text.startswith(start)), "pip")
    frames = []
    for line in lines[index : index + 4]:
        if match := PLACE.search(line):
            frames = [frame(match[2], int(match[1]))]
            break
    more = _conflict(output.stdout) if kind == "ResolutionImpossible" else ()
    return program_error(kind, "\n".join([text, *more]), frames)


def _conflict(lines: Sequence[str]) -> Iterator[str]:
    """Yield which packages contradict each other."""
    if CONFLICT in lines:
        index = lines.index(CONFLICT)
        for line in lines[index + 1 : index + MORE]:
            if not line:
                return
            yield line.strip()


def _report(lines: Sequence[str], index: int) -> ProgramError | None:
    """Read a report with the crosses and arrows of newer versions of pip."""
    block = [line.strip() for line in lines[index + 1 : index + MORE]]
    if len(block) < 2 or block[0] or not block[1].startswith(REPORT):
        return None
    message: list[str] = []
    for line in block[1:]:
        if not line:
            break
        message.append(line.lstrip(MARKS))
    return program_error(lines[index].partition("error: ")[2], "\n".join(message))


def _npm(lines: Sequence[str]) -> ProgramError:
    """Read all lines of npm; a code that is a number is the exit code of another program."""
    said = [line[len(NPM[0]) :].strip() for line in lines if line.startswith(NPM)]
    facts = dict(
        text.split(" ", 1) for text in reversed(said) if text.startswith(("code ", "path "))
    )
    code = facts.get("code", "")
    message = [text for text in said if text and not text.startswith(SILENT)]
    message = [_without(code, text) for text in message if text.lower() != code.lower()]
    frames = [frame(facts["path"])] if facts.get("path", "").endswith(".json") else []
    kind = "ELIFECYCLE" if number(code) is not None else code or "npm"
    return program_error(kind, "\n".join(message), frames)


def _without(code: str, text: str) -> str:
    """Remove the code that npm repeats before each line."""
    label, _, rest = text.partition(" ")
    return rest if label.lower() == code.lower() else text
