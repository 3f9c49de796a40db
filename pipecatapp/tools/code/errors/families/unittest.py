"""Output of unittest.

    output  = { any line } { failure } "-----" "Ran N tests in ..."
    failure = "=====" kind ": " name [ about ] "-----" { any line | traceback of Python }
              [ "Stdout:" | "Stderr:" { any line } ]
    kind    = "ERROR" | "FAIL" | "UNEXPECTED SUCCESS"

The first failure counts. Its message goes on after blank lines, as a comparison of lists does.
"""

from collections.abc import Sequence
from typing import Final

from pipecatapp.tools.code.errors.families import python
from pipecatapp.tools.code.errors.lines import Output
from pipecatapp.tools.code.errors.result import ProgramError, program_error

ABOVE, BELOW = "=" * 70, "-" * 70
KINDS: Final = ("ERROR: ", "FAIL: ")
SUCCESS: Final = "UNEXPECTED SUCCESS: "
CAPTURED: Final = ("Stdout:", "Stderr:")


def parse(output: Output) -> ProgramError | None:
    """Return the first failure."""
    for lines in output.streams:
        for index, line in enumerate(lines[1:], 1):
            if lines[index - 1] != ABOVE:
                continue
            if line.startswith(SUCCESS):
                name = line.removeprefix(SUCCESS)
                symbol = name.partition(" ")[0]
                return program_error("UnexpectedSuccess", name, symbol=symbol)
            if line.startswith(KINDS):
                return _failure(_section(lines, index))
    return None


def _section(lines: Sequence[str], index: int) -> list[str]:
    """Return the lines of the failure below its name, without the output that was captured."""
    section: list[str] = []
    below = next((at for at in range(index, len(lines)) if lines[at] == BELOW), index)
    for line in lines[below + 1 :]:
        if line in (ABOVE, BELOW) or line in CAPTURED:
            break
        section.append(line)
    return section


def _failure(section: Sequence[str]) -> ProgramError | None:
    block = python.last_block(section)
    if block is None:
        return None
    first = f"{block.type}: {block.message}".split("\n")[0].removesuffix(": ")
    index = len(section) - 1
    while index > 0 and section[index] != first:
        index -= 1
    message = "\n".join([block.message.split("\n")[0], *section[index + 1 :]]) if index else ""
    return program_error(block.type, message.rstrip() or block.message, block.frames)
