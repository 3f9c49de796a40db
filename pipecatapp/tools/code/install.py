"""Python packages for programs of a run."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.code.packages import Packages
from pipecatapp.workflow import Context, tool


class InstalledPackages(BaseModel):
    """An environment that programs can be run with, and never change."""

    id: str = Field(description="What code.run takes as `packages`.")
    packages: list[str] = Field(description="Everything in it, as name==version.")


@tool("code.install", effect="net", version=1)
async def install(
    ctx: Context,
    packages: Annotated[
        list[str],
        Field(description="Such as `requests==2.32.5`; wheels only.", min_length=1, max_length=200),
    ],
) -> InstalledPackages:
    """Fetch Python packages, with what they need, for programs that code.run runs later."""
    made = await ctx.service(Packages).install(packages)
    return InstalledPackages(id=made.id, packages=made.packages)
