"""Tools that create, fill, merge and push branches of a run."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool
from pipecatapp.workspace import Branches, GitWorktree

Name = Annotated[str, Field(description="Name of the branch, such as `task/login`.", min_length=1)]


class Branch(BaseModel):
    """A branch and its last commit."""

    branch: str = Field(description="Its name.")
    commit: str = Field(description="The id of its last commit.")


class Merged(BaseModel):
    """The folder after a merge."""

    state: str = Field(description="The state of the workspace, as `workspace.reset` takes it.")


def branches_of(ctx: Context) -> Branches:
    """The branches of the run; raises `ToolFailed` outside of a run's workspace."""
    if not isinstance(ctx.worktree, GitWorktree):
        raise ToolFailed("There is no workspace outside of a run.")
    return Branches(ctx.worktree)


@tool("git.branch", effect="workspace", version=1)
async def branch(
    ctx: Context,
    name: Name,
    at: Annotated[
        str | None,
        Field(description="Branch or state to begin at; null is the commit the run began with."),
    ] = None,
) -> Branch:
    """Create a branch in the run's git directory; the files of the workspace stay as they are."""
    return Branch(branch=name, commit=await branches_of(ctx).create(name, at))


@tool("git.commit", effect="workspace", version=1)
async def commit(
    ctx: Context,
    branch: Name,
    message: Annotated[
        str, Field(description="The message of the commit.", min_length=1, max_length=20000)
    ],
) -> Branch:
    """Commit the files of the workspace on a branch, without those that `.gitignore` leaves out.

    A branch that does not exist begins at the commit that the run began with.
    """
    return Branch(branch=branch, commit=await branches_of(ctx).commit(branch, message))


@tool("git.merge", effect="workspace", version=1)
async def merge(ctx: Context, branch: Name) -> Merged:
    """Merge a branch of the run into the workspace; a conflict fails and names the files."""
    return Merged(state=await branches_of(ctx).merge(branch))


@tool("git.push", effect="external", version=1, workspace=True, idempotent=True)
async def push(
    ctx: Context,
    branch: Name,
    remote: Annotated[
        str, BY_AUTHOR, Field(description="Folder of the repository, bare or not.", min_length=1)
    ],
) -> Branch:
    """Push a branch of the run to a repository on this machine.

    A branch there that has other commits is not overwritten: the call fails.
    """
    return Branch(branch=branch, commit=await branches_of(ctx).push(branch, Path(remote)))
