"""What went wrong in a program, read out of what it printed."""

import re
from typing import Final

from pydantic import BaseModel, Field

FRAME: Final = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
RAISED: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
PLACE: Final = re.compile(
    r"^(?P<file>[^\s:]+):(?P<line>\d+)(?::\d+)?:\s*"
    r"(?:(?P<type>[\w ]*[Ee]rror):\s*)?(?P<message>.+)$",
    re.MULTILINE,
)


class ProgramError(BaseModel):
    """One error: the last that a program told before it ended."""

    type: str = Field(description="Its name, such as `ValueError`; `exit` where it has none.")
    message: str
    file: str | None = Field(description="Where it was raised, as the program named it.")
    line: int | None


def error_of(stderr: str, *, exit_code: int | None, stopped: str | None) -> ProgramError | None:
    """The error of a program that did not end well: a Python traceback, a line `file:line:
    message` as compilers write, or the last thing it said. None where nothing went wrong.
    """
    if stopped is not None:
        return ProgramError(type=stopped, message=f"its limit of {stopped}", file=None, line=None)
    if exit_code == 0:
        return None
    lines = [line for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {exit_code}"
    frames, raised = list(FRAME.finditer(stderr)), RAISED.match(last)
    if frames and raised:
        at = frames[-1]
        return _error(raised["type"], raised["message"], at["file"], at["line"])
    if places := list(PLACE.finditer(stderr)):
        at = next((one for one in places if one["type"]), places[-1])
        return _error(at["type"] or "exit", at["message"], at["file"], at["line"])
    return ProgramError(type="exit", message=last, file=None, line=None)


def _error(type: str, message: str | None, file: str, line: str) -> ProgramError:
    return ProgramError(type=type, message=message or "", file=file, line=int(line))
