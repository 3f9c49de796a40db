"""Tools that read the branches of a run."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.git.branches import Name, branches_of
from pipecatapp.workflow import Context, tool

SHOWN: Final = 100_000
"""Characters of a diff in the result."""


class Difference(BaseModel):
    """What changed."""

    diff: str = Field(description="As a unified diff; a long one is cut.")
    cut: bool = Field(description="Whether it is cut.")
    files: list[str] = Field(description="The files that changed.")


class Commit(BaseModel):
    """One commit."""

    commit: str
    author: str
    at: str = Field(description="When: ISO 8601.")
    message: str


class Log(BaseModel):
    """The commits of a branch."""

    commits: list[Commit] = Field(description="Id, author, date and message; the newest first.")


@tool("git.diff", effect="read", version=1, workspace=True)
async def diff(
    ctx: Context,
    since: Annotated[str, Field(description="A branch or a state.", min_length=1)],
    until: Annotated[
        str | None, Field(description="A branch or a state; null is the workspace as it is.")
    ] = None,
) -> Difference:
    """Show what changed between two branches or states of the run."""
    branches = branches_of(ctx)
    text, files = await branches.diff(since, until), await branches.changed(since, until)
    return Difference(diff=text[:SHOWN], cut=len(text) > SHOWN, files=files)


@tool("git.log", effect="read", version=1, workspace=True)
async def log(
    ctx: Context,
    branch: Name,
    limit: Annotated[int, Field(description="Commits at most.", ge=1, le=500)] = 20,
) -> Log:
    """List the commits of a branch of the run.

    A run has its source without the past of it, so the list ends at the commit it began with.
    """
    entries = await branches_of(ctx).log(branch, limit)
    return Log(commits=[Commit(**vars(entry)) for entry in entries])
