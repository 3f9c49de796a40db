"""Errors of the sqlite3 shell and of psql.

    output = { any line | sqlite | psql }
    sqlite = ( "Parse error" | "Runtime error" | "Error" ) [ " near line N" ] ": " text
           | "Error: in prepare, " text | "Error: stepping, " text | "Error: near line N: " text
    psql   = [ "psql:F:N: " ] severity ":  " [ "SQLSTATE: " ] text
             { "LINE N: ..." | "DETAIL: ..." | "HINT: ..." }
             [ "CONTEXT:  PL/pgSQL function S(types) line N at ..." ]
           | "psql: error: " text { tab more }

The first error counts. A shell that goes on after an error can end well in spite of it.
"""

import re
from collections.abc import Sequence
from typing import Final

from pipecatapp.tools.code.errors.lines import Output
from pipecatapp.tools.code.errors.result import ProgramError, frame, program_error

NEAR: Final = re.compile(r"(Parse error|Runtime error|Error):? near line (\d{1,9}): (.+)")
STEPS: Final = (
    ("Error: in prepare, ", "Parse error"),
    ("Error: stepping, ", "Runtime error"),
    ("Parse error: ", "Parse error"),
    ("Runtime error: ", "Runtime error"),
    ("Error: unable to open database ", "Error"),
)
"""Beginnings of messages of sqlite3 without a line, and their types."""
PSQL: Final = re.compile(
    r"(?:psql:([^:]+):(\d{1,9}): )?(ERROR|FATAL|PANIC):  (?:([0-9A-Z]{5}): )?(.+)"
)
CLIENT: Final = "psql: error: "
CONTEXT: Final = re.compile(r"CONTEXT:  PL/pgSQL function (?:[^\s(]*\.)?([^\s(.]+)\(")
MORE: Final = 20
"""Lines that can follow a message."""


def parse(output: Output) -> ProgramError | None:
    """Return the first error."""
    for lines in output.streams:
        for index, line in enumerate(lines):
            if error := _sqlite(line) or _psql(lines, index):
                return error
    return None


def _sqlite(line: str) -> ProgramError | None:
    if match := NEAR.match(line):
        kind = "Runtime error" if match[3].endswith(")") and match[1] == "Error" else match[1]
        return program_error(kind, match[3], line=int(match[2]))
    for start, kind in STEPS:
        if line.startswith(start):
            named = kind == "Error"
            return program_error(kind, line.removeprefix("Error: " if named else start))
    return None


def _psql(lines: Sequence[str], index: int) -> ProgramError | None:
    match = PSQL.match(lines[index])
    if match is None and not lines[index].startswith(CLIENT):
        return None
    following = lines[index + 1 : index + MORE]
    if match is None:
        more = [line.strip() for line in following if line.startswith("\t")]
        return program_error("error", "\n".join([lines[index].removeprefix(CLIENT), *more]))
    frames = [frame(match[1], int(match[2]))] if match[1] else []
    context = next((found for line in following if (found := CONTEXT.match(line))), None)
    symbol = context[1] if context else None
    return program_error(match[4] or match[3], match[5], frames, symbol=symbol)
