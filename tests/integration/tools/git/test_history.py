"""The tools `git.diff` and `git.log` on a real workspace."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from pipecatapp.workspace import GitWorktree
from tests.integration.tools.git.test_branches import COMMIT, keep, project, worktree

DIFF, LOG = TOOLS["git.diff"], TOOLS["git.log"]
__all__ = ["project", "worktree"]


async def test_log_and_diff_tell_what_a_branch_has(worktree: GitWorktree) -> None:
    """A model that reviews a branch sees its commits and what they changed."""
    ctx = Context(run="r1", worktree=worktree)
    await keep(worktree, "b", "1\n")
    first = await COMMIT.check(ctx, {"branch": "one", "message": "Add b\n\nBecause."})
    await keep(worktree, "c", "2\n")

    log = await LOG.check(ctx, {"branch": "one"})
    since = await DIFF.check(ctx, {"since": "one"})
    between = await DIFF.check(ctx, {"since": await worktree.base(), "until": "one"})

    newest, oldest = log["commits"]
    assert (newest["commit"], newest["message"]) == (first["commit"], "Add b\n\nBecause.")
    assert oldest["message"] == "first"
    assert since["diff"].splitlines()[-1] == "+2"
    assert since["files"] == ["c"]
    assert between["diff"].splitlines()[-1] == "+1"
    assert len((await LOG.check(ctx, {"branch": "one", "limit": 1}))["commits"]) == 1
    with pytest.raises(ToolFailed, match="no state"):
        await DIFF.check(ctx, {"since": "0" * 40})
