"""The way back to a state of the workspace."""

from typing import Annotated

from pydantic import Field

from pipecatapp.tools.workspace.state import State, state_of, worktree_of
from pipecatapp.workflow import Context, ToolFailed, tool


@tool("workspace.reset", effect="workspace", version=1)
async def reset(
    ctx: Context,
    to: Annotated[
        str | None,
        Field(description="A state from `workspace.state`; null is the start of the run."),
    ] = None,
) -> State:
    """Make the workspace what it was, to try again from there; what came after stays kept aside."""
    worktree = worktree_of(ctx)
    wanted = await worktree.base() if to is None else to
    if await worktree.content(wanted) is None:
        raise ToolFailed(f"This run has no state {wanted!r}.")
    await worktree.reset(wanted)
    return await state_of(worktree)
