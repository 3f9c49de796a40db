"""The folder of a run, with all stored states, in git."""

from pipecatapp.workspace.branches import Branches
from pipecatapp.workspace.folders import GitWorkspaces
from pipecatapp.workspace.stored import StoredFile
from pipecatapp.workspace.uploads import NotStored, NotUploaded, Uploads
from pipecatapp.workspace.worktree import GitWorktree

__all__ = [
    "Branches",
    "GitWorkspaces",
    "GitWorktree",
    "NotStored",
    "NotUploaded",
    "StoredFile",
    "Uploads",
]
