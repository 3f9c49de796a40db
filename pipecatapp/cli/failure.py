"""How a command ends: its exit codes, and the one place that turns errors into them."""

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import typer

from hearth.service.settings import SettingsError
from pipecatapp.cli.inputs import InvalidInput
from pipecatapp.library.editing import Changed, NotEdited, UnknownLayer
from pipecatapp.library.secrets import SecretMissing
from pipecatapp.library.stored import UnknownTask
from pipecatapp.schedules.store import ScheduleKept, UnknownSchedule
from pipecatapp.schedules.timing import WrongTiming
from pipecatapp.shelf import UnknownProject, UnknownPrompt
from pipecatapp.workflow import (
    InvalidDocument,
    InvalidInputs,
    LedgerBusy,
    LedgerFailed,
    LedgerTooNew,
    NotAsked,
    NotGranted,
    NotImported,
    UnknownRun,
    UnknownStep,
    UnknownWorkflow,
    WrongAnswer,
)

DONE: Final = 0
FAILED: Final = 1
INVALID: Final = 2
CANCELLED: Final = 130
"""128 + SIGINT, as a shell says of a program that Ctrl-C ended."""


class CommandFailed(Exception):
    """The message says what is wrong; `code` is the exit code."""

    def __init__(self, message: str, *, code: int = FAILED) -> None:
        self.code = code
        super().__init__(message)


REFUSED: Final = (
    *(InvalidInput, InvalidDocument, InvalidInputs, NotImported),
    *(NotEdited, NotGranted, UnknownLayer),
    *(UnknownWorkflow, WrongAnswer, WrongTiming),
)
BROKEN: Final = (
    SettingsError,
    Changed,
    LedgerBusy,
    LedgerFailed,
    LedgerTooNew,
    NotAsked,
    NotImported,
    UnknownRun,
    UnknownStep,
    UnknownSchedule,
    ScheduleKept,
    UnknownPrompt,
    UnknownProject,
    UnknownTask,
    SecretMissing,
)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Say an error in one sentence on standard error and end with its code."""
    try:
        yield
    except CommandFailed as error:
        end(str(error), error.code)
    except REFUSED as error:
        end(str(error), INVALID)
    except BROKEN as error:
        end(str(error), FAILED)
    except KeyboardInterrupt:
        raise typer.Exit(CANCELLED) from None


def end(message: str, code: int) -> NoReturn:
    """Message to standard error, then out."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


def finish(work: Coroutine[Any, Any, int]) -> None:
    """Run the command's work to its exit code."""
    with exit_codes():
        code = asyncio.run(work)
        sys.stdout.flush()
        if code != DONE:
            raise typer.Exit(code)
