"""Named branches of a run: in its own git directory, which no program of the run can reach."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipecatapp.workflow import ToolFailed
from pipecatapp.workspace.git import GitFailed, run
from pipecatapp.workspace.worktree import GitWorktree

BRANCH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:[./][A-Za-z0-9_][A-Za-z0-9_-]*)*")
"""Stricter than git: no name of this form needs quoting or is an option."""
LONGEST_NAME: Final = 200
REFUSED: Final = 1
"""Exit code of `git fetch` where a branch is not the beginning of the other."""
FIELDS: Final = "%H%x1f%an%x1f%aI%x1f%B%x1e"
"""Commit, author, date and message, with separators that no message has."""


@dataclass(frozen=True)
class LogEntry:
    """One commit of a branch."""

    commit: str
    author: str
    at: str
    message: str


class Branches:
    """The branches of one run; a commit on them holds what the run's folder holds."""

    def __init__(self, worktree: GitWorktree) -> None:
        self._worktree, self._store = worktree, worktree.store

    async def create(self, name: str, at: str | None = None) -> str:
        """Create a branch at a commit of this run, its start if none is named; return the commit.

        The same branch created twice is one. Raises `ToolFailed` for a branch that is elsewhere.
        """
        commit = await self._commit_at(at or await self._worktree.base())
        if (there := await self.tip(name)) is not None and there != commit:
            raise ToolFailed(f"The branch {name!r} exists already, at {there[:12]}.")
        await self._store.git("update-ref", self._ref(name), commit)
        return commit

    async def tip(self, name: str) -> str | None:
        """Return the last commit of a branch, None if the branch does not exist."""
        words = ("rev-parse", "--verify", "--quiet", self._ref(name))
        code, output = await self._store.git(*words, ok=(0, 1))
        return None if code else output.decode().strip()

    async def commit(self, name: str, message: str) -> str:
        """Commit the folder on a branch that starts at the run's start; return the commit.

        Files in `.gitignore` are omitted. If content and message equal those of the last commit,
        that commit is returned.
        """
        async with self._store.writing:
            parent = await self.tip(name) or await self._worktree.base()
            wanted = (await self._worktree.reviewable(self._store.ref("start")), message.rstrip())
            if await self._worktree.content_of(parent) == wanted:
                return parent
            commit = await self._worktree.new_commit(wanted[0], parent, message)
            await self._store.git("update-ref", self._ref(name), commit)
            return commit

    async def log(self, name: str, limit: int) -> list[LogEntry]:
        """Return the commits of a branch, the newest first, as far as this run has them."""
        words = ("log", f"--max-count={limit}", f"--format={FIELDS}", await self._known(name), "--")
        output = await self._store.git.text(*words)
        parts = [part.strip("\n").split("\x1f") for part in output.split("\x1e") if part.strip()]
        return [
            LogEntry(commit=commit, author=author, at=at, message=message.strip())
            for commit, author, at, message in parts
        ]

    async def diff(self, since: str, until: str | None = None) -> str:
        """Return what changed between two branches or states; `until` is the folder without one."""
        end = await self._worktree.head() if until is None else await self._commit_at(until)
        return await self._worktree.diff(await self._commit_at(since), end)

    async def changed(self, since: str, until: str | None = None) -> list[str]:
        """Return the names of the files that `diff` is about."""
        end = await self._worktree.head() if until is None else await self._commit_at(until)
        trees = (f"{state}^{{tree}}" for state in (await self._commit_at(since), end))
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
        _, output = await self._store.git(*words, *trees)
        return [name.decode(errors="replace") for name in output.split(b"\0") if name]

    async def merge(self, name: str) -> str:
        """Bring a branch into the folder; return the new state of the folder.

        Raises `ToolFailed` with the names of the files that conflict; nothing is changed then.
        """
        return await self._worktree.merge_commit(await self._known(name), name)

    async def push(self, name: str, remote: Path) -> str:
        """Push a branch to a repository on this machine, bare or not; return its commit.

        The repository fetches it, so that none of its hooks run. Raises `ToolFailed` where there is
        no repository, and where its branch has commits that this one has not.
        """
        commit, git = await self._known(name), self._store.git
        if not remote.is_absolute():
            raise ToolFailed(f"{remote} is not a valid repository: use an absolute path.")
        place = ["-C", str(remote)]
        try:
            await run([*place, "rev-parse", "--git-dir"], git.directory)
        except GitFailed as error:
            raise ToolFailed(f"There is no repository at {remote}.") from error
        words = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
        words += ["--no-write-fetch-head", "--update-shallow", f"file://{git.directory}"]
        refs = f"{self._ref(name)}:refs/heads/{name}"
        code, _ = await run([*place, *words, refs], git.directory, ok=(0, REFUSED))
        if code == REFUSED:
            raise ToolFailed(f"The branch {name!r} of {remote} has commits that this one has not.")
        return commit

    def _ref(self, name: str) -> str:
        if not BRANCH.fullmatch(name) or len(name) > LONGEST_NAME or name.endswith(".lock"):
            raise ToolFailed(
                f"{name!r} is not a valid branch name: use letters, digits, '-', '_', '.' and '/'."
            )
        return self._store.ref(f"branches/{name}")

    async def _known(self, name: str) -> str:
        tip = await self.tip(name)
        if tip is None:
            raise ToolFailed(f"This run has no branch {name!r}.")
        return tip

    async def _commit_at(self, name: str) -> str:
        """Return the commit of a branch, or of a state."""
        if re.fullmatch(r"[0-9a-f]{40,64}", name):
            if await self._worktree.content(name) is None:
                raise ToolFailed(f"This run has no state {name!r}.")
            return name
        return await self._known(name)
