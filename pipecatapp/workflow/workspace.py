"""The engine's interface to a workspace; `pipecatapp.workspace` implements it on git worktrees."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Worktree(Protocol):
    """A folder that one node after the other changes, and all the states it was kept in."""

    @property
    def folder(self) -> Path:
        """Where tools work: `Context.workspace`."""

    async def commit(self, about: str) -> str:
        """Keep the folder as it is now; gives the id of the state, also when nothing changed."""

    async def tree(self) -> str:
        """The hash of the folder's content: equal for equal content, whatever came before."""

    async def content(self, state: str) -> str | None:
        """The same hash of a state that was kept; None for one that is not here."""

    async def base(self) -> str:
        """The id of the state that it began with."""

    async def head(self) -> str:
        """The id of the state that was kept last."""

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
        """Bring the last states of forks together in this folder, and remove the forks.

        Gives the new state. Raises `ToolFailed` that names the files where they conflict; then
        nothing has changed.
        """

    async def remove(self) -> None:
        """Remove the folder; its states stay kept."""

    async def deliver(self, about: str) -> str:
        """One commit on the branch `run/<id>` of the source, for a person to review; gives its id.

        Raises `ToolFailed` where the workspace had no source or the branch has moved on.
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
        """The workspace of a run: made from `source` (a git repository; None for an empty one) at
        the commit `start`, or found again as it was left. With the run `origin` it has the states
        of that one, too, and begins where it began.

        Raises `ToolFailed` when that commit or that repository does not exist.
        """

    async def prune(self, run: str) -> None:
        """Forget a run's workspace and all of its states."""
