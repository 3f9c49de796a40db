"""Exit codes of commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended; `CANCELLED` is 128 + SIGINT, as a shell reports Ctrl-C."""

    DONE = 0
    FAILED = 1
    INVALID = 2
    CANCELLED = 130
