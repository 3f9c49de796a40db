"""The tools `git.branch`, `git.commit`, `git.merge` and `git.push` on real repositories."""

import subprocess
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from pipecatapp.workspace import GitWorkspaces, GitWorktree

BRANCH, COMMIT = TOOLS["git.branch"], TOOLS["git.commit"]
MERGE, PUSH = TOOLS["git.merge"], TOOLS["git.push"]


def git(folder: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(named, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit."""
    (project := tmp_path / "project").mkdir()
    (project / "a").write_text("a\n")
    (project / ".gitignore").write_text("*.log\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    return project


@pytest.fixture
async def worktree(tmp_path: Path, project: Path) -> GitWorktree:
    return await GitWorkspaces(tmp_path / "workspaces").open("r1", project)


async def keep(worktree: GitWorktree, name: str, text: str) -> None:
    (worktree.folder / name).write_text(text)
    await worktree.commit(name)


async def test_commit_is_on_its_branch_and_pushed_without_ignored_files(
    worktree: GitWorktree, project: Path, tmp_path: Path
) -> None:
    """The run's own git directory has the branch; a repository gets it when it is pushed."""
    ctx = Context(run="r1", worktree=worktree)
    git(tmp_path, "clone", "-q", "--bare", "project", "remote.git")
    began = await BRANCH.check(ctx, {"name": "task/one"})
    await keep(worktree, "b", "1\n")
    await keep(worktree, "noise.log", "x")

    made = await COMMIT.check(ctx, {"branch": "task/one", "message": "Add b"})
    pushed = await PUSH.check(ctx, {"branch": "task/one", "remote": str(tmp_path / "remote.git")})

    assert began["commit"] == git(project, "rev-parse", "HEAD").strip()
    assert pushed == made
    assert git(tmp_path / "remote.git", "log", "--format=%s", "task/one") == "Add b\nfirst\n"
    assert git(tmp_path / "remote.git", "ls-tree", "--name-only", "task/one").split() == [
        ".gitignore", "a", "b"
    ]  # fmt: skip
    assert git(project, "branch", "--list", "task/*") == ""


async def test_call_that_is_made_again_does_nothing_twice(
    worktree: GitWorktree, project: Path
) -> None:
    """A call that was cut off after it took effect is made again when the run resumes."""
    ctx = Context(run="r1", worktree=worktree)
    await keep(worktree, "b", "1\n")
    for _ in range(2):
        await BRANCH.check(ctx, {"name": "one"})
    for _ in range(2):
        await COMMIT.check(ctx, {"branch": "one", "message": "Add b\n"})
    for _ in range(2):
        await PUSH.check(ctx, {"branch": "one", "remote": str(project)})

    assert git(project, "log", "--format=%s", "one") == "Add b\nfirst\n"


async def test_merge_brings_a_branch_in_and_a_conflict_changes_nothing(
    worktree: GitWorktree,
) -> None:
    """Two attempts that changed different files are joined; the same line is not guessed."""
    ctx = Context(run="r1", worktree=worktree)
    await keep(worktree, "a", "theirs\n")
    await COMMIT.check(ctx, {"branch": "theirs", "message": "Change a"})
    await worktree.reset(await worktree.base())
    await keep(worktree, "b", "mine\n")

    await MERGE.check(ctx, {"branch": "theirs"})

    assert (worktree.folder / "a").read_text() == "theirs\n"
    assert (worktree.folder / "b").read_text() == "mine\n"
    await worktree.reset(await worktree.base())
    await keep(worktree, "a", "mine\n")
    with pytest.raises(ToolFailed, match="same places of a"):
        await MERGE.check(ctx, {"branch": "theirs"})
    assert (worktree.folder / "a").read_text() == "mine\n"


async def test_branch_of_the_repository_that_moved_on_is_not_overwritten(
    worktree: GitWorktree, project: Path
) -> None:
    """Someone else's commits are never lost."""
    ctx = Context(run="r1", worktree=worktree)
    git(project, "checkout", "-q", "-b", "one")
    (project / "c").write_text("c")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "theirs")
    git(project, "checkout", "-q", "main")
    await keep(worktree, "b", "1\n")
    await COMMIT.check(ctx, {"branch": "one", "message": "Add b"})

    with pytest.raises(ToolFailed, match="has commits that this one has not"):
        await PUSH.check(ctx, {"branch": "one", "remote": str(project)})
    assert git(project, "log", "-1", "--format=%s", "one") == "theirs\n"


@pytest.mark.parametrize("name", ["-x", "a b", "../a", "a..b", "a.lock", "a/", "HEAD^", "x" * 300])
async def test_invalid_name_is_refused(worktree: GitWorktree, name: str) -> None:
    """Nothing that a model writes becomes an option or a path of git."""
    with pytest.raises(ToolFailed, match="not a valid branch name"):
        await BRANCH.check(Context(worktree=worktree), {"name": name})


async def test_hooks_of_the_repository_do_not_run(worktree: GitWorktree, project: Path) -> None:
    """A repository's hooks are programs that would run on this machine."""
    ctx = Context(run="r1", worktree=worktree)
    hook = project / ".git" / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {project}/hook-ran\n")
    hook.chmod(0o755)
    await keep(worktree, "b", "1\n")
    await COMMIT.check(ctx, {"branch": "one", "message": "Add b"})

    await PUSH.check(ctx, {"branch": "one", "remote": str(project)})

    assert not (project / "hook-ran").exists()


async def test_unknown_branch_and_repository_are_errors(
    worktree: GitWorktree, tmp_path: Path
) -> None:
    """The message names what is missing."""
    ctx = Context(run="r1", worktree=worktree)
    with pytest.raises(ToolFailed, match="no branch 'none'"):
        await MERGE.check(ctx, {"branch": "none"})
    await BRANCH.check(ctx, {"name": "one"})
    with pytest.raises(ToolFailed, match="use an absolute path"):
        await PUSH.check(ctx, {"branch": "one", "remote": "somewhere"})
    with pytest.raises(ToolFailed, match="no repository at"):
        await PUSH.check(ctx, {"branch": "one", "remote": str(tmp_path / "nowhere")})
    with pytest.raises(ToolFailed, match="no workspace"):
        await BRANCH.check(Context(), {"name": "one"})
