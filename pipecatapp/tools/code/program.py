"""Shared inputs of the tools that run programs, and the call of a program."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from pipecatapp.sandbox import Limits, Mount, Outcome, Sandbox, SandboxUnusable
from pipecatapp.sandbox.ceiling import Ceiling
from pipecatapp.sandbox.errand import Errand, carry_out
from pipecatapp.sandbox.tree import TooLarge
from pipecatapp.tools.code.elsewhere.places import Places
from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, ToolInputs

MIB: Final = 1 << 20


class ProgramInputs(ToolInputs):
    """The environment and the limits of a program."""

    environment: Annotated[
        dict[str, str],
        BY_AUTHOR,
        Field(
            description="Variables of the program; it has no others of this machine.",
            default_factory=dict,
        ),
    ]
    packages: Annotated[
        str,
        BY_AUTHOR,
        Field(description="Python packages to have: the `id` that code.install gave."),
    ] = ""
    seconds: Annotated[
        float, BY_AUTHOR, Field(description="How long one run may take.", gt=0, le=3600)
    ] = 60.0
    memory_mb: Annotated[
        int, BY_AUTHOR, Field(description="MiB for all of its processes together.", ge=16, le=65536)
    ] = 1024
    processes: Annotated[
        int, BY_AUTHOR, Field(description="Processes and threads at the same time.", ge=1, le=4096)
    ] = 128
    disk_mb: Annotated[
        int, BY_AUTHOR, Field(description="MiB by which the workspace may grow.", ge=1, le=65536)
    ] = 512

    def variables(self) -> dict[str, str]:
        """Return the environment. Raises `ToolFailed` for a name that no system takes."""
        return checked(self.environment)

    def limits(self, ctx: Context) -> Limits:
        """Return the limits of the program.

        Raises `ToolFailed` for one above the ceiling of this instance; a default above the ceiling
        is lowered to it.
        """
        service = ctx.services.get(Ceiling)
        ceiling = (service if isinstance(service, Ceiling) else Ceiling()).model_dump()
        wanted = {name: getattr(self, name) for name in LIMITS}
        fields = type(self).model_fields
        over = [
            name for name, value in wanted.items() if fields[name].default != value > ceiling[name]
        ]
        if over:
            values = ", ".join(
                f"{name} {wanted[name]:g}, at most {ceiling[name]:g}" for name in over
            )
            raise ToolFailed(
                f"Above the ceiling of this instance (PIPECATAPP_CODE_CEILING): {values}."
            )
        least = {name: min(value, ceiling[name]) for name, value in wanted.items()}
        return Limits(
            seconds=least["seconds"],
            cpu=int(least["seconds"] * 8) + 1,
            memory=int(least["memory_mb"]) * MIB,
            processes=int(least["processes"]),
            disk=int(least["disk_mb"]) * MIB,
            file=int(least["disk_mb"]) * MIB,
        )


LIMITS: Final = ("seconds", "memory_mb", "processes", "disk_mb")
"""The inputs that a ceiling bounds."""


def checked(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables. Raises `ToolFailed` for a name or a value that no system takes."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ToolFailed(f"{name!r} cannot be a variable of the environment.")
    return dict(environment)


async def execute(
    ctx: Context, errand: Errand, folder: Path, packages: str, *, mounts: Sequence[Mount] = ()
) -> Outcome:
    """Run a program where the node says: in the sandbox, a container or a job of the cluster.

    `mounts` are for the sandbox. Raises `ToolFailed` where nothing could be run.
    """
    if ctx.where == "local":
        return await _in_sandbox(ctx, errand, folder, packages, mounts)
    if packages:
        raise ToolFailed("Packages of code.install are there for programs of this machine only.")
    place, call = ctx.service(Places).named(ctx.where), f"{ctx.run}:{ctx.path}"
    return await place.run(call, errand, folder, leaving=ctx.leaving)


async def _in_sandbox(
    ctx: Context, errand: Errand, folder: Path, packages: str, mounts: Sequence[Mount]
) -> Outcome:
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
        raise ToolFailed(f"The workspace cannot be sent to the program: {error}.") from error
