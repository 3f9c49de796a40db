"""The tool `workspace.deliver` on a real repository."""

import subprocess
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from pipecatapp.workspace import GitWorkspaces, GitWorktree

DELIVER = TOOLS["workspace.deliver"]


def git(folder: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout


async def opened(tmp_path: Path) -> tuple[Path, GitWorktree]:
    """A project with one commit, and the workspace of a run on it."""
    (project := tmp_path / "project").mkdir()
    (project / "a").write_text("a")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    return project, await GitWorkspaces(tmp_path / "workspaces").open("r1", project)


async def keep(worktree: GitWorktree, name: str, text: str) -> None:
    (worktree.folder / name).write_text(text)
    await worktree.commit(name)


async def test_deliver_makes_one_commit_and_a_later_one_takes_its_place(tmp_path: Path) -> None:
    """A person reviews one change; after a further round it is still one."""
    project, worktree = await opened(tmp_path)
    ctx = Context(run="r1", worktree=worktree)
    await keep(worktree, "b", "1")
    await keep(worktree, "c", "1")

    first = await DELIVER.check(ctx, {"about": "Add b and c"})
    same = await DELIVER.check(ctx, {"about": "Add b and c"})
    await keep(worktree, "b", "2")
    second = await DELIVER.check(ctx, {"about": "Add b and c, mended"})

    assert first == same == {"branch": "run/r1", "commit": first["commit"]}
    assert git(project, "rev-parse", "run/r1").strip() == second["commit"] != first["commit"]
    said = git(project, "log", "--format=%s", "--name-only", "main..run/r1").split("\n")
    assert said == ["Add b and c, mended", "", "b", "c", ""]
    assert git(project, "show", "run/r1:b") == "2"


async def test_deliver_never_overwrites_what_a_person_did_to_the_branch(tmp_path: Path) -> None:
    """Who has begun to review must find the own remarks the next day."""
    project, worktree = await opened(tmp_path)
    ctx = Context(run="r1", worktree=worktree)
    await keep(worktree, "b", "1")
    await DELIVER.check(ctx, {"about": "Add b"})
    git(project, "switch", "-q", "run/r1")
    git(project, "commit", "-q", "--allow-empty", "-m", "a remark")
    await keep(worktree, "b", "2")

    with pytest.raises(ToolFailed, match="has moved on"):
        await DELIVER.check(ctx, {"about": "Add b"})
    assert git(project, "log", "-1", "--format=%s").strip() == "a remark"


async def test_deliver_without_a_repository_fails(worktree: GitWorktree) -> None:
    """There is nowhere to put it."""
    with pytest.raises(ToolFailed, match="not made from a repository"):
        await DELIVER.check(Context(run="r1", worktree=worktree), {"about": "x"})
