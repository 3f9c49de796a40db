"""The engine's interface to a workspace; `pipecatapp.workspace` implements it on git worktrees."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Worktree(Protocol):
    """A folder that one node after the other changes, with all stored states."""

    @property
    def folder(self) -> Path:
        """Where tools work: `Context.workspace`."""

    async def commit(self, about: str) -> str:
        """Store the current state of the folder; returns its id, also without a change."""

    async def tree(self) -> str:
        """Return the hash of the folder's content, independent of its history."""

    async def content(self, state: str) -> str | None:
        """Return this hash for a stored state; None if the state is not stored here."""

    async def base(self) -> str:
        """The id of the state that it began with."""

    async def head(self) -> str:
        """Return the id of the last stored state."""

    async def reset(self, state: str) -> None:
        """Reset the folder to a state; later states stay stored."""

    async def diff(self, since: str, until: str) -> str:
        """Return the changes between two states as a unified diff."""

    async def fork(self, name: str, state: str | None = None) -> "Worktree":
        """Create a second folder from a state, by default the last one of this folder; an existing
        folder is reused.

        Any text is a name, such as the path of an instance: `each[2]/patch`.
        """

    async def merge(self, forks: Sequence["Worktree"]) -> str:
        """Merge the last states of forks into this folder, and remove the forks.

        Returns the new state. Raises `ToolFailed` with the files that conflict; then nothing has
        changed.
        """

    async def remove(self) -> None:
        """Remove the folder; its states stay stored."""

    async def deliver(self, about: str) -> str:
        """Write one commit on the branch `run/<id>` of the source, for review; returns its id.

        Raises `ToolFailed` if the workspace has no source or the branch was changed.
        """


class Workspaces(Protocol):
    """Opens the workspaces of runs."""

    async def open(
        self,
        run: str,
        source: Path | None,
        start: str | None = None,
        *,
        origin: str | None = None,
    ) -> Worktree:
        """Create the workspace of a run, from `source` (a git repository; None for an empty one) at
        the commit `start`, or return the existing one. With the run `origin` it also has the states
        of that run, and starts from the same state.

        Raises `ToolFailed` if that commit or that repository does not exist.
        """

    async def prune(self, run: str) -> None:
        """Forget a run's workspace and all of its states."""
