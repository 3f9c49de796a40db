"""The tool `workspace.state` on a real workspace."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from pipecatapp.workspace import GitWorktree

STATE = TOOLS["workspace.state"]


async def test_state_tells_whether_anything_has_changed(worktree: GitWorktree) -> None:
    """A loop that changes nothing any more is stuck, whatever its model says."""
    ctx = Context(worktree=worktree)
    first = await STATE.check(ctx, {})
    (worktree.folder / "a").write_text("a")
    await worktree.commit("a")
    other = await STATE.check(ctx, {})
    (worktree.folder / "a").unlink()
    await worktree.commit("back")
    back = await STATE.check(ctx, {})

    assert [one["changed"] for one in (first, other, back)] == [False, True, False]
    assert first["tree"] == back["tree"] != other["tree"]
    assert len({one["state"] for one in (first, other, back)}) == 3


async def test_state_of_no_workspace_fails() -> None:
    """A tool that is called by hand has no run, and says so."""
    with pytest.raises(ToolFailed, match="no workspace"):
        await STATE.check(Context(), {})
