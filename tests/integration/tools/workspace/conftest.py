"""A workspace as a run has it, on real git."""

from pathlib import Path

import pytest

from pipecatapp.workspace import GitWorkspaces, GitWorktree


@pytest.fixture
async def worktree(tmp_path: Path) -> GitWorktree:
    return await GitWorkspaces(tmp_path / "workspaces").open("r1", None)
