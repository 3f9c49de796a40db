"""Messages of bash, dash and other shells.

    output  = { any line | message }
    message = F ": line " N ": " text       (bash)
            | F ": " N ": " text            (dash)
            | shell ": " text
    text    = { word ": " } reason

The last message counts, because a shell goes on after most errors. bash repeats the source of a
syntax error between quotes; that line is ignored.
"""

import re
from typing import Final

from pipecatapp.tools.code.errors.lines import Output
from pipecatapp.tools.code.errors.result import ProgramError, frame, program_error

BASH: Final = re.compile(r"([^:]+): line (\d{1,9}): (.+)")
DASH: Final = re.compile(r"([^:\s]+): (\d{1,9}): (.+)")
SHELLS: Final = ("bash", "sh", "dash", "ash", "ksh", "zsh", "/bin/bash", "/bin/sh", "-bash")
REASONS: Final = (
    ("command not found", "command not found"),
    ("not found", "command not found"),
    ("syntax error", "syntax error"),
    ("Syntax error", "syntax error"),
    ("unbound variable", "unbound variable"),
    ("parameter not set", "unbound variable"),
    ("bad substitution", "bad substitution"),
    ("Bad substitution", "bad substitution"),
    ("No such file or directory", "No such file or directory"),
    ("cannot open", "No such file or directory"),
    ("Permission denied", "Permission denied"),
    ("Is a directory", "Is a directory"),
    ("ambiguous redirect", "ambiguous redirect"),
)
"""Words of a message, and the type that they give it."""


def parse(output: Output) -> ProgramError | None:
    """Return the last error of a shell."""
    for lines in output.streams:
        for line in reversed(lines):
            if error := _message(line):
                return error
    return None


def _message(line: str) -> ProgramError | None:
    match = BASH.match(line)
    if match and match[3].startswith("`") and match[3].endswith("'"):
        return None
    if match:
        return _error(match[1], int(match[2]), match[3], "error")
    match = DASH.match(line)
    if match:
        return _error(match[1], int(match[2]), match[3], None)
    shell, _, text = line.partition(": ")
    return _error(shell, None, text, None) if shell in SHELLS else None


def _error(file: str, line: int | None, text: str, unknown: str | None) -> ProgramError | None:
    """Build the error; `unknown` is the type if no reason is known, None to read no error then."""
    kind = next((kind for words, kind in REASONS if words in text), unknown)
    if kind is None:
        return None
    frames = [] if file in SHELLS else [frame(file, line)]
    return program_error(kind, text, frames, line=line)
