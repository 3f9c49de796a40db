"""Python packages for programs of a run."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.code.errors import ProgramError
from pipecatapp.tools.code.packages import FetchFailed, Packages
from pipecatapp.workflow import BY_AUTHOR, Context, tool


class InstalledPackages(BaseModel):
    """An environment that programs can be run with, and never change; or why there is none."""

    ok: bool = Field(description="Whether the packages are installed.")
    id: str | None = Field(description="The input `packages` of code.run; null if not `ok`.")
    packages: list[str] = Field(description="Everything in it, as name==version.")
    lock: str = Field(
        description="The same with the hash of each wheel, as a requirements file for pip."
    )
    error: ProgramError | None = Field(
        description="Why pip found no such packages, in the form of the `error` of code.run."
    )


@tool("code.install", effect="net", version=2)
async def install(
    ctx: Context,
    packages: Annotated[
        list[str],
        Field(
            description="Such as `requests` or `requests==2.32.5`; wheels only.",
            min_length=1,
            max_length=200,
        ),
    ],
    *,
    must_succeed: Annotated[
        bool,
        BY_AUTHOR,
        Field(description="Whether the step fails without the packages; else `error` says why."),
    ] = True,
) -> InstalledPackages:
    """Fetch Python packages, with what they need, for programs that code.run runs later."""
    store = ctx.service(Packages)
    try:
        made = await store.install(packages)
    except FetchFailed as failed:
        if must_succeed:
            raise
        return InstalledPackages(ok=False, id=None, packages=[], lock="", error=failed.error)
    return InstalledPackages(
        ok=True, id=made.id, packages=made.packages, lock=store.lock(made), error=None
    )
