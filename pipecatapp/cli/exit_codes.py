"""End a command: print its error as one sentence, exit with the code of the one table."""

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

import typer

from pipecatapp.application.exit_codes import ExitCode
from pipecatapp.client import RequestFailed

DONE, FAILED, INVALID, CANCELLED = ExitCode


class CommandFailed(Exception):
    """A command failed: the message states the error; `code` is the exit code."""

    def __init__(self, message: str, *, code: int = FAILED) -> None:
        self.code = code
        super().__init__(message)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Print an error in one sentence on standard error and end with its code."""
    try:
        yield
    except CommandFailed as error:
        end(str(error), error.code)
    except RequestFailed as error:
        end(str(error), _errors().exit_code_for(error.status, error.code))
    except KeyboardInterrupt:
        raise typer.Exit(CANCELLED) from None
    except _errors().KNOWN as error:
        end(str(error), _errors().exit_code_of(error))


def _errors() -> ModuleType:
    """The table of errors; it brings the engine along, so it is loaded only after an error."""
    return import_module("pipecatapp.application.errors")


def end(message: str, code: int) -> NoReturn:
    """Print the message to standard error and exit."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


def finish(work: Coroutine[Any, Any, int]) -> None:
    """Run the command's work to its exit code."""
    with exit_codes():
        code = asyncio.run(work)
        sys.stdout.flush()
        if code != DONE:
            raise typer.Exit(code)
