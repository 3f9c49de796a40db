"""The folder that a run works in, with every state it was kept in: git, at arm's length."""

from pipecatapp.workspace.branches import Branches
from pipecatapp.workspace.folders import GitWorkspaces
from pipecatapp.workspace.worktree import GitWorktree

__all__ = ["Branches", "GitWorkspaces", "GitWorktree"]
