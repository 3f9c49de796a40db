"""Which state the workspace is in."""

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, ToolFailed, Worktree, tool


class State(BaseModel):
    """A state that the workspace can be brought back to."""

    state: str = Field(description="The id of the state, as `workspace.reset` takes it.")
    tree: str = Field(description="Hash of all files: equal for equal content, for `stuck_on`.")
    changed: bool = Field(description="Whether the content is another than at the run's start.")


@tool("workspace.state", effect="read", version=1, workspace=True)
async def state(ctx: Context) -> State:
    """Tell the state of the workspace, to come back to it or to see that nothing has changed."""
    return await state_of(worktree_of(ctx))


def worktree_of(ctx: Context) -> Worktree:
    """The folder of the run with its states."""
    if ctx.worktree is None:
        raise ToolFailed("There is no workspace outside of a run.")
    return ctx.worktree


async def state_of(worktree: Worktree) -> State:
    """Return the last stored state of a folder."""
    now, first = await worktree.head(), await worktree.base()
    tree = str(await worktree.content(now))
    return State(state=now, tree=tree, changed=tree != await worktree.content(first))
