"""Ports on a git repository of this machine: results and proposals are notes of commits.

They travel with the repository: `git push origin 'refs/notes/*'`.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from pipecatapp.tools.ports.port import Check, PortSettings, Proposal
from pipecatapp.workflow import ToolFailed
from pipecatapp.workspace.git import run

CHECKS: Final = "refs/notes/ci"
PROPOSALS: Final = "refs/notes/proposals"
MISSING: Final = (0, 1)
"""Exit codes of `git notes show` with and without a note."""


class Notes:
    """The notes of one ref of a repository."""

    def __init__(self, repository: Path, ref: str) -> None:
        if not repository.is_absolute():
            raise ToolFailed(f"{repository} is not a valid repository: use an absolute path.")
        self._repository, self._ref = repository, ref

    async def git(self, *words: str, ok: Sequence[int] = (0,)) -> tuple[int, str]:
        """Exit code and output of git in the repository; raises `ToolFailed`."""
        with tempfile.TemporaryDirectory() as home:
            place = ["-C", str(self._repository)]
            code, output = await run([*place, *words], Path(home), ok=ok)
        return code, output.decode(errors="replace").strip()

    async def show(self, commit: str) -> str:
        """The note of a commit; empty where it has none."""
        words = ("notes", "--ref", self._ref, "show", commit)
        code, text = await self.git(*words, ok=MISSING)
        return "" if code else text

    async def write(self, commit: str, text: str) -> None:
        """Replace the note of a commit."""
        await self.git("notes", "--ref", self._ref, "add", "--force", "-m", text, commit)

    async def commits(self) -> list[str]:
        """The commits that have a note."""
        _, listed = await self.git("notes", "--ref", self._ref, "list")
        return [line.split()[1] for line in listed.splitlines()]

    async def commit_of(self, name: str) -> str:
        """The commit of a branch or commit; raises `ToolFailed`."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        code, commit = await self.git(*words, ok=MISSING)
        if code:
            raise ToolFailed(f"{self._repository} has no commit {name!r}.")
        return commit


class GitCi:
    """Results as notes under `refs/notes/ci`: a JSON list of checks for each commit."""

    def __init__(self, repository: Path) -> None:
        self._notes = Notes(repository, CHECKS)

    async def status(self, commit: str) -> Sequence[Check]:
        """The results of a commit."""
        text = await self._notes.show(await self._notes.commit_of(commit))
        try:
            return TypeAdapter(list[Check]).validate_json(text) if text else []
        except ValidationError as error:
            raise ToolFailed(f"The note of {commit} is not valid: {error}") from error


class GitScm:
    """Proposals as notes under `refs/notes/proposals`, on the last commit of their branch."""

    def __init__(self, repository: Path) -> None:
        self._notes = Notes(repository, PROPOSALS)

    async def propose(self, branch: str, into: str, title: str, text: str) -> Proposal:
        """Propose a branch; the same commit proposed again replaces the first proposal."""
        commit = await self._notes.commit_of(f"refs/heads/{branch}")
        await self._notes.commit_of(f"refs/heads/{into}")
        proposal = Proposal(id=commit[:12], branch=branch, into=into, title=title, text=text)
        await self._notes.write(commit, json.dumps(proposal.model_dump(), ensure_ascii=False))
        return proposal

    async def proposals(self) -> Sequence[Proposal]:
        """All proposals; one whose commit its target has is merged."""
        found: list[Proposal] = []
        for commit in await self._notes.commits():
            proposal = Proposal.model_validate_json(await self._notes.show(commit))
            words = ("merge-base", "--is-ancestor", commit, f"refs/heads/{proposal.into}")
            code, _ = await self._notes.git(*words, ok=MISSING)
            found.append(proposal if code else proposal.model_copy(update={"state": "merged"}))
        return found


def ci(settings: PortSettings, _token: str) -> GitCi:
    """The results of a repository."""
    return GitCi(Path(settings.repository))


def scm(settings: PortSettings, _token: str) -> GitScm:
    """The proposals of a repository."""
    return GitScm(Path(settings.repository))
