"""A program in the sandbox, on the run's workspace."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from hearth.service.ephemeral import scratch
from pipecatapp.sandbox import Limits, Mount, Outcome, Sandbox, SandboxUnusable, Stopped
from pipecatapp.sandbox.errand import Errand, carry_out
from pipecatapp.sandbox.tree import TooLarge, remove
from pipecatapp.tools.code.elsewhere.places import Places
from pipecatapp.tools.code.errors import ProgramError, error_of
from pipecatapp.tools.code.packages import Packages
from pipecatapp.tools.code.secrets import hidden, values_of
from pipecatapp.workflow import Context, ToolFailed, tool

MIB = 1 << 20
LISTED = 200
"""Changed files that are named; more are counted."""

Change = Literal["added", "changed", "removed"]


class ChangedFile(BaseModel):
    path: str
    change: Change


class Ran(BaseModel):
    """How a program ended. Its exit code is data: only what could not be run at all fails."""

    ok: bool = Field(description="Whether it ended by itself, with the exit code 0.")
    exit_code: int | None = Field(
        description="Its own; 128 + n where signal n ended it; null where a limit did."
    )
    stopped: Stopped | None = Field(description="The limit that ended it: time, memory, disk …")
    stdout: str = Field(description="What it printed; of much, the beginning and the end.")
    stderr: str = Field(description="The same of its standard error.")
    stdout_cut: int = Field(description="Bytes that are missing in the middle of `stdout`.")
    stderr_cut: int = Field(description="Bytes that are missing in the middle of `stderr`.")
    error: ProgramError | None = Field(
        description="What went wrong, read out of `stderr`: type, message, file and line."
    )
    seconds: float = Field(description="How long it ran.")
    files: list[ChangedFile] = Field(description="What it added, changed or removed.")
    files_left_out: int = Field(description="How many more it changed than are named.")


@tool("code.run", effect="exec", version=1)
async def run(
    ctx: Context,
    code: Annotated[str, Field(description="Source of a program; or give `command`.")] = "",
    language: Annotated[Literal["python", "sh"], Field(description="Of `code`.")] = "python",
    command: Annotated[
        list[str], Field(description="A program of the system and its arguments.")
    ] = [],  # noqa: B006
    stdin: Annotated[str, Field(description="What it can read from its standard input.")] = "",
    environment: Annotated[
        dict[str, str], Field(description="Variables; nothing else of ours is there.")
    ] = {},  # noqa: B006
    secrets: Annotated[
        dict[str, str],
        Field(description="Variables that hold secrets: each with the name its project gives it."),
    ] = {},  # noqa: B006
    packages: Annotated[
        str, Field(description="Python packages to have: the `id` that code.install gave.")
    ] = "",
    image: Annotated[
        str, Field(description="Of the container it runs in, where the node says `where: docker`.")
    ] = "",
    seconds: Annotated[float, Field(description="How long it may take.", gt=0, le=3600)] = 60.0,
    memory_mb: Annotated[
        int, Field(description="MiB for all of its processes together.", ge=16, le=65536)
    ] = 1024,
    processes: Annotated[
        int, Field(description="Processes and threads at the same time.", ge=1, le=4096)
    ] = 128,
    disk_mb: Annotated[
        int, Field(description="MiB by which the workspace may grow.", ge=1, le=65536)
    ] = 512,
) -> Ran:
    """Run a program in the sandbox: no network, no files but the workspace, which is its folder.

    Without a workspace the folder is empty and goes away with the program.
    """
    if bool(code) == bool(command):
        raise ToolFailed("Say either `code` or `command`.")
    limits = Limits(
        seconds=seconds,
        cpu=int(seconds * 8) + 1,
        memory=memory_mb * MIB,
        processes=processes,
        disk=disk_mb * MIB,
        file=disk_mb * MIB,
    )
    values = values_of(ctx, secrets)
    variables = checked({**environment, **values})
    errand = Errand(command, limits, code, language, stdin, variables, image)
    with folder_of(ctx) as folder:
        work = here if ctx.where == "local" else elsewhere
        return ran(hidden(await work(ctx, errand, folder, packages), values))


async def elsewhere(ctx: Context, errand: Errand, folder: Path, packages: str) -> Outcome:
    """In a job or a container; raises `ToolFailed` where nothing could be run."""
    if packages:
        raise ToolFailed("Packages of code.install are there for programs of this machine only.")
    place, call = ctx.service(Places).named(ctx.where), f"{ctx.run}:{ctx.path}"
    return await place.run(call, errand, folder, leaving=ctx.leaving)


async def here(ctx: Context, errand: Errand, folder: Path, packages: str) -> Outcome:
    """In the sandbox of this machine; raises `ToolFailed` where nothing could be run."""
    if errand.image:
        raise ToolFailed("An `image` is for nodes that say `where: docker`.")
    interpreter, mounts = "", []
    if packages:
        place = ctx.service(Packages).place(packages)
        interpreter = str(place / "bin" / "python")
        mounts.append(Mount(place, str(place)))
    try:
        return await carry_out(
            errand, folder, ctx.service(Sandbox), interpreter=interpreter, mounts=mounts
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
    with scratch("hearth-run", remove) as folder:
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
        error=error_of(ended.stderr.text, exit_code=ended.exit_code, stopped=ended.stopped),
        seconds=ended.seconds,
        files=files,
        files_left_out=max(0, len(changes) - LISTED),
    )


def readable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
