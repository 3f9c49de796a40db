"""The tool `workspace.reset` on a real workspace."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from pipecatapp.workspace import GitWorktree

RESET = TOOLS["workspace.reset"]


async def test_reset_brings_back_a_state_or_the_start(worktree: GitWorktree) -> None:
    """A second attempt must not begin with the ruins of the first."""
    ctx = Context(worktree=worktree)
    (worktree.folder / "a").write_text("1")
    kept = await worktree.commit("1")
    (worktree.folder / "a").write_text("2")
    (worktree.folder / "b").write_text("2")
    later = await worktree.commit("2")

    told = await RESET.check(ctx, {"to": kept})
    assert (told["state"], told["changed"]) == (kept, True)
    assert {file.name: file.read_text() for file in worktree.folder.iterdir()} == {"a": "1"}
    told = await RESET.check(ctx, {})
    assert (told["changed"], list(worktree.folder.iterdir())) == (False, [])
    await RESET.check(ctx, {"to": later})
    assert (worktree.folder / "b").read_text() == "2"


@pytest.mark.parametrize("to", ["", "HEAD", "0" * 40])
async def test_reset_to_nothing_that_was_kept_fails(worktree: GitWorktree, to: str) -> None:
    """What is no state must not be taken for an empty one."""
    (worktree.folder / "a").write_text("1")

    with pytest.raises(ToolFailed, match=r"no state|not a state"):
        await RESET.check(Context(worktree=worktree), {"to": to})
    assert (worktree.folder / "a").exists()
