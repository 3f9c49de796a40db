"""The result of a run, for a person to review."""

from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.tools.workspace.state import worktree_of
from pipecatapp.workflow import Context, tool


class Delivered(BaseModel):
    """The branch and the commit with the result."""

    branch: str = Field(
        description="The branch in the repository from which the workspace was made."
    )
    commit: str = Field(description="The commit on it with all changes of the run.")


@tool("workspace.deliver", effect="external", version=1, workspace=True, idempotent=True)
async def deliver(
    ctx: Context,
    about: Annotated[
        str, Field(description="The message of the commit.", min_length=1, max_length=20000)
    ],
) -> Delivered:
    """Put what the run has changed on a branch of its repository, as one commit to review."""
    commit = await worktree_of(ctx).deliver(about)
    return Delivered(branch=f"run/{ctx.run}", commit=commit)
