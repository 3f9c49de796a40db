"""A program in the sandbox, on the run's workspace."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox import Limits, Mount, Outcome, Sandbox, SandboxUnusable, Stopped
from pipecatapp.sandbox.ceiling import Ceiling
from pipecatapp.sandbox.errand import Errand, carry_out
from pipecatapp.sandbox.leftovers import guard
from pipecatapp.sandbox.tree import TooLarge, remove
from pipecatapp.tools.code.elsewhere.places import Places
from pipecatapp.tools.code.errors import ProgramError, error_of
from pipecatapp.tools.code.packages import Packages
from pipecatapp.tools.code.secrets import hidden, values_of
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

MIB = 1 << 20
LISTED = 200
"""Changed files that are named; more are counted."""

USUAL: Final = {"seconds": 60.0, "memory_mb": 1024, "processes": 128, "disk_mb": 512}
"""The limits of a program for which nobody sets any."""

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
        description="Its own; 128 + n where signal n ended it; null where a limit did."
    )
    stopped: Stopped | None = Field(description="The limit that ended it: time, memory, disk …")
    stdout: str = Field(description="What it printed; of much, the beginning and the end.")
    stderr: str = Field(description="The same of its standard error.")
    stdout_cut: int = Field(description="Bytes that are missing in the middle of `stdout`.")
    stderr_cut: int = Field(description="Bytes that are missing in the middle of `stderr`.")
    error: ProgramError | None = Field(
        description="The error that ended it, read from its output: type, message, file, line …"
    )
    seconds: float = Field(description="How long it ran.")
    files: list[ChangedFile] = Field(description="What it added, changed or removed.")
    files_left_out: int = Field(description="How many more it changed than are named.")


@tool("code.run", effect="exec", version=2)
async def run(
    ctx: Context,
    code: Annotated[str, Field(description="Source of a program; or give `command`.")] = "",
    language: Annotated[Literal["python", "sh"], Field(description="Of `code`.")] = "python",
    command: Annotated[
        list[str], Field(description="A program of the system and its arguments.")
    ] = [],  # noqa: B006
    stdin: Annotated[str, Field(description="What it can read from its standard input.")] = "",
    environment: Annotated[
        dict[str, str], BY_AUTHOR, Field(description="Variables; nothing else of ours is there.")
    ] = {},  # noqa: B006
    secrets: Annotated[
        dict[str, str],
        BY_AUTHOR,
        Field(description="Variables that hold secrets: each with the name its project gives it."),
    ] = {},  # noqa: B006
    packages: Annotated[
        str,
        BY_AUTHOR,
        Field(description="Python packages to have: the `id` that code.install gave."),
    ] = "",
    image: Annotated[
        str,
        BY_AUTHOR,
        Field(description="Of the container it runs in, where the node says `where: docker`."),
    ] = "",
    seconds: Annotated[
        float, BY_AUTHOR, Field(description="How long it may take.", gt=0, le=3600)
    ] = 60.0,
    alive: Annotated[
        float | None,
        BY_AUTHOR,
        Field(
            description="For servers and games: end it after so many seconds; that it still runs"
            " then is success.",
            gt=0,
            le=600,
        ),
    ] = None,
    memory_mb: Annotated[
        int, BY_AUTHOR, Field(description="MiB for all of its processes together.", ge=16, le=65536)
    ] = 1024,
    processes: Annotated[
        int, BY_AUTHOR, Field(description="Processes and threads at the same time.", ge=1, le=4096)
    ] = 128,
    disk_mb: Annotated[
        int, BY_AUTHOR, Field(description="MiB by which the workspace may grow.", ge=1, le=65536)
    ] = 512,
) -> Ran:
    """Run a program in the sandbox: no network, no files but the workspace, which is its folder.

    Without a workspace the folder is empty and goes away with the program.
    """
    if bool(code) == bool(command):
        raise ToolFailed("Say either `code` or `command`.")
    seconds = seconds if alive is None else min(seconds, alive)
    limits = limits_of(
        ctx, seconds=seconds, memory_mb=memory_mb, processes=processes, disk_mb=disk_mb
    )
    values = values_of(ctx, secrets)
    variables = checked({**environment, **values})
    errand = Errand(command, limits, code, language, stdin, variables, image)
    with folder_of(ctx) as folder:
        work = here if ctx.where == "local" else elsewhere
        result = ran(hidden(await work(ctx, errand, folder, packages), values))
    if alive is not None and result.stopped == "time":
        return result.model_copy(update={"ok": True, "error": None})
    return result


def limits_of(ctx: Context, **wanted: float) -> Limits:
    """The limits of a program. Raises `ToolFailed` for one above the ceiling of this instance; a
    usual limit above the ceiling is lowered to it.
    """
    found = ctx.services.get(Ceiling)
    ceiling = (found if isinstance(found, Ceiling) else Ceiling()).model_dump()
    over = [name for name, value in wanted.items() if USUAL[name] != value > ceiling[name]]
    if over:
        told = ", ".join(f"{name} {wanted[name]:g}, at most {ceiling[name]:g}" for name in over)
        raise ToolFailed(f"Above the ceiling of this instance (PIPECATAPP_CODE_CEILING): {told}.")
    least = {name: min(value, ceiling[name]) for name, value in wanted.items()}
    return Limits(
        seconds=least["seconds"],
        cpu=int(least["seconds"] * 8) + 1,
        memory=int(least["memory_mb"]) * MIB,
        processes=int(least["processes"]),
        disk=int(least["disk_mb"]) * MIB,
        file=int(least["disk_mb"]) * MIB,
    )


async def elsewhere(ctx: Context, errand: Errand, folder: Path, packages: str) -> Outcome:
    """In a job or a container; raises `ToolFailed` where nothing could be run."""
    if packages:
        raise ToolFailed("Packages of code.install are there for programs of this machine only.")
    place, call = ctx.service(Places).named(ctx.where), f"{ctx.run}:{ctx.path}"
    return await place.run(call, errand, folder, leaving=ctx.leaving)


async def here(
    ctx: Context, errand: Errand, folder: Path, packages: str, *, mounts: Sequence[Mount] = ()
) -> Outcome:
    """In the sandbox of this machine; raises `ToolFailed` where nothing could be run."""
    if errand.image:
        raise ToolFailed("An `image` is for nodes that say `where: docker`.")
    interpreter, shown = "", list(mounts)
    if packages:
        place = ctx.service(Packages).place(packages)
        interpreter = str(place / "bin" / "python")
        shown.append(Mount(place, str(place)))
    try:
        return await carry_out(
            errand, folder, ctx.service(Sandbox), interpreter=interpreter, mounts=shown
        )
    except SandboxUnusable as error:
        raise ToolFailed(str(error)) from error
    except (OSError, ValueError) as error:
        raise ToolFailed(f"The program cannot be started: {error}.") from error
    except TooLarge as error:
        raise ToolFailed(f"The workspace cannot be given to a program: {error}.") from error


def checked(environment: dict[str, str]) -> dict[str, str]:
    """Variables as a system takes them."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ToolFailed(f"{name!r} cannot be a variable of the environment.")
    return environment


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
    """The outcome as data; names of files that are no text are made so."""
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
