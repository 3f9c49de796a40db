"""Findings of ruff, and of other linters that print `F:N:C: CODE message`.

    output   = { any line | finding | failure | refusal }
    finding  = code [ ":" ] [ " [*]" ] " text" arrow { source }      (full)
             | "F:N:C: " code [ ":" ] [ " [*]" ] " text"             (concise)
    arrow    = "--> F:N:C"
    failure  = "ruff failed" { "  Cause: text" }
    refusal  = "error: Failed to parse F:N:C: text"

The first finding counts.
"""

import re
from collections.abc import Sequence
from typing import Final

from pipecatapp.tools.code.errors.lines import Output, location
from pipecatapp.tools.code.errors.result import ProgramError, frame, program_error

FINDING: Final = re.compile(
    r"([A-Z]{1,9}\d{2,5}|invalid-syntax|unformatted)(?:: | )(?:\[\*\] )?(.+)"
)
REFUSAL: Final = "error: Failed to parse "
FAILURE: Final = "ruff failed"
CAUSE: Final = "  Cause: "
TOML: Final = re.compile(r"TOML parse error at line (\d{1,9})")
MORE: Final = 20
"""Lines after the head of a failure."""


def parse(output: Output) -> ProgramError | None:
    """Return the first finding, or why there are none."""
    for lines in output.streams:
        for index, line in enumerate(lines):
            if error := _full(lines, index) or _concise(line) or _failure(lines, index):
                return error
    return None


def _full(lines: Sequence[str], index: int) -> ProgramError | None:
    match = FINDING.match(lines[index])
    if match is None or index + 1 == len(lines):
        return None
    _, arrow, place = lines[index + 1].partition("--> ")
    found = location(place) if arrow else None
    return program_error(match[1], match[2], [frame(found.file, found.line)]) if found else None


def _concise(line: str) -> ProgramError | None:
    if line.startswith(REFUSAL):
        place = location(line.removeprefix(REFUSAL))
        frames = [frame(place.file, place.line)] if place else []
        return program_error("invalid-syntax", place.rest if place else line, frames)
    place = location(line)
    match = FINDING.match(place.rest) if place and " " not in place.file else None
    if place is None or match is None:
        return None
    return program_error(match[1], match[2], [frame(place.file, place.line)])


def _failure(lines: Sequence[str], index: int) -> ProgramError | None:
    """Read that ruff could not begin, such as for its settings."""
    if lines[index] != FAILURE:
        return None
    causes: list[str] = []
    for line in lines[index + 1 : index + MORE]:
        if not line:
            break
        causes.append(line.removeprefix(CAUSE))
    file = next(
        (words for cause in causes if (words := cause.partition("Failed to parse ")[2])), ""
    )
    numbers = [match[1] for cause in causes if (match := TOML.match(cause))]
    frames = [frame(file, int(numbers[0]) if numbers else None)] if file else []
    return program_error("ruff", "\n".join(causes), frames)
