"""A program in the sandbox, on the run's workspace."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox import Outcome, Stopped
from pipecatapp.sandbox.bubblewrap import PATH
from pipecatapp.sandbox.errand import RUNNERS, Errand
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import remove
from pipecatapp.tools.code.errors import ProgramError, error_of
from pipecatapp.tools.code.language.identify import identify
from pipecatapp.tools.code.program import ProgramInputs, checked, execute
from pipecatapp.tools.code.secrets import hidden, values_of
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

LISTED = 200
"""Changed files that are named; more are counted."""
PACKAGES: Final = {"node": "nodejs", "sqlite3": "sqlite3", "/bin/bash": "bash"}
"""Debian's packages of the programs that run source code."""

Change = Literal["added", "changed", "removed"]


class ChangedFile(BaseModel):
    path: str
    change: Change


class Ran(BaseModel):
    """How a program ended. Its exit code is data: only what could not be run at all fails."""

    ok: bool = Field(
        description="Whether it ended by itself, with the exit code 0, or still ran after `alive`."
    )
    exit_code: int | None = Field(
        description="Exit code; 128 + n if signal n ended it; null if a limit ended it."
    )
    stopped: Stopped | None = Field(description="The limit that ended it: time, memory, disk …")
    stdout: str = Field(description="Its output; if it is long, the beginning and the end.")
    stderr: str = Field(description="Its standard error, shortened in the same way.")
    stdout_cut: int = Field(description="Bytes that are missing in the middle of `stdout`.")
    stderr_cut: int = Field(description="Bytes that are missing in the middle of `stderr`.")
    error: ProgramError | None = Field(
        description="The error that ended it, parsed from its output: type, message, file, line …"
    )
    seconds: float = Field(description="Its duration in seconds.")
    files: list[ChangedFile] = Field(description="The files that it added, changed or removed.")
    files_left_out: int = Field(description="Number of changed files that are not listed.")


@tool("code.run", effect="exec", version=3)
async def run(
    ctx: Context,
    code: Annotated[str, Field(description="Source of the program, instead of `command`.")] = "",
    language: Annotated[
        Literal["python", "sh", "bash", "javascript", "sql", "auto"],
        Field(
            description="Language of `code`. JavaScript runs in Node.js, SQL in an empty SQLite"
            " database; `auto` identifies it by `#!`, the fence around the code, or its content."
        ),
    ] = "python",
    command: Annotated[
        list[str], Field(description="A program of the system with its arguments.")
    ] = [],  # noqa: B006
    stdin: Annotated[str, Field(description="Its standard input.")] = "",
    secrets: Annotated[
        dict[str, str],
        BY_AUTHOR,
        Field(description="Environment variable -> name of a secret of the project."),
    ] = {},  # noqa: B006
    image: Annotated[
        str,
        BY_AUTHOR,
        Field(description="Of the container it runs in, where the node says `where: docker`."),
    ] = "",
    alive: Annotated[
        float | None,
        BY_AUTHOR,
        Field(
            description="For servers and games: seconds after which the program is ended and"
            " counts as successful if it still runs.",
            gt=0,
            le=600,
        ),
    ] = None,
    *,
    program: ProgramInputs,
) -> Ran:
    """Run a program in the sandbox: no network, no files but the workspace, which is its folder.

    Without a workspace the folder is empty and goes away with the program.
    """
    if bool(code) == bool(command):
        raise ToolFailed("Say either `code` or `command`.")
    if alive is not None:
        program = program.model_copy(update={"seconds": min(program.seconds, alive)})
    values = values_of(ctx, secrets)
    variables = program.variables() | checked(values)
    if code and language == "auto":
        language, code = identified(code)
    if code and ctx.where == "local":
        check_runner(language)
    errand = Errand(command, program.limits(ctx), code, language, stdin, variables, image)
    with folder_of(ctx) as folder:
        ended = await execute(ctx, errand, folder, program.packages)
        result = ran(hidden(ended, values))
    if alive is not None and result.stopped == "time":
        return result.model_copy(update={"ok": True, "error": None})
    return result


def identified(code: str) -> tuple[Any, str]:
    """Return the language of a program and the program without a fence around it.

    Raises `ToolFailed` where no language that can be run is identified.
    """
    found = identify("", code)
    if found.language is None or not found.language.run:
        named = found.language.name if found.language else "not identified"
        raise ToolFailed(f"The language of the program is {named}: run a `command` instead.")
    first = found.code.partition("\n")[0]
    is_sh = found.language.run == "bash" and first.startswith("#!") and "bash" not in first
    return "sh" if is_sh else found.language.run, found.code


def check_runner(language: str) -> None:
    """Raise `ToolFailed` if this machine does not have the program that runs a language."""
    program = RUNNERS.get(language, ("",))[0]
    if program in PACKAGES and shutil.which(program, path=PATH) is None:
        raise ToolFailed(f"{program} is not installed: run `apt-get install {PACKAGES[program]}`.")


@contextlib.contextmanager
def folder_of(ctx: Context) -> Iterator[Path]:
    """The workspace, or an empty folder for a run that has none."""
    if ctx.workspace is not None:
        yield ctx.workspace
        return
    guard.watch()
    with scratch(f"{guard.mark}-run", remove) as folder:
        yield folder


def ran(ended: Outcome) -> Ran:
    """Convert the outcome to a result; file names that are not valid UTF-8 are made readable."""
    changes = list(ended.changes.items())
    files = [
        ChangedFile.model_validate({"path": readable(path), "change": change})
        for path, change in changes[:LISTED]
    ]
    return Ran(
        ok=ended.exit_code == 0 and ended.stopped is None,
        exit_code=ended.exit_code,
        stopped=ended.stopped,
        stdout=ended.stdout.text,
        stderr=ended.stderr.text,
        stdout_cut=ended.stdout.cut,
        stderr_cut=ended.stderr.cut,
        error=error_of(
            ended.stderr.text,
            stdout=ended.stdout.text,
            exit_code=ended.exit_code,
            stopped=ended.stopped,
        ),
        seconds=ended.seconds,
        files=files,
        files_left_out=max(0, len(changes) - LISTED),
    )


def readable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
