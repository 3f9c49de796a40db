"""Choose the parser that understands an output."""

from collections.abc import Callable
from typing import Final

from pipecatapp.tools.code.errors.families import (
    bash,
    gcc,
    go,
    install,
    node,
    pytest,
    python,
    ruff,
    rust,
    sql,
    typescript,
    unittest,
)
from pipecatapp.tools.code.errors.lines import Output, lines_of, location
from pipecatapp.tools.code.errors.result import ProgramError, frame, program_error

Parser = Callable[[Output], ProgramError | None]

PARSERS: Final[tuple[Parser, ...]] = (
    pytest.parse,
    unittest.parse,
    python.parse,
    node.parse,
    typescript.parse,
    go.parse,
    gcc.parse,
    ruff.parse,
    sql.parse,
    install.parse,
    rust.parse,
    bash.parse,
)
"""From programs that show the output of other programs to the programs themselves; `error: ...`
without a name can be of many, so `rust` is near the end, and shells report anything.
"""

WRAPPERS: Final = ("CalledProcessError", "subprocess.CalledProcessError", "ELIFECYCLE")
"""Errors that say only that another program failed; its own error is better."""


def error_of(
    stderr: str, *, exit_code: int | None, stopped: str | None, stdout: str = ""
) -> ProgramError | None:
    """Return the error of a program, or None if it ended well.

    `stopped` is the limit that ended it. If no parser understands the output, the type is `exit`
    and the message is the last `file:line: message` of `stderr`, or the last line of both.
    """
    if stopped is not None:
        return program_error(stopped, f"its limit of {stopped}")
    if exit_code == 0:
        return None
    output = Output(lines_of(stdout), lines_of(stderr))
    wrapper = None
    for parser in PARSERS:
        error = parser(output)
        if error is not None and error.type not in WRAPPERS:
            return error
        wrapper = wrapper or error
    return wrapper or _place(output) or _exit(output, exit_code)


def _place(output: Output) -> ProgramError | None:
    """Read the last line of `stderr` that is `file:line: message`, as many programs write."""
    for line in reversed(output.stderr):
        place = location(line)
        if place and place.rest and " " not in place.file:
            return program_error("exit", place.rest, [frame(place.file, place.line)])
    return None


def _exit(output: Output, exit_code: int | None) -> ProgramError:
    return program_error("exit", _last_line(output) or f"exit code {exit_code}")


def _last_line(output: Output) -> str | None:
    for lines in output.streams:
        for line in reversed(lines):
            if line.strip():
                return line.strip()
    return None
