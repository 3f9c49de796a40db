"""Ports on plain files of this machine: one file for each issue, commit and proposal."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from hearth.files import write_atomic
from pipecatapp.tools.ports.port import Check, Issue, IssueState, PortSettings, Proposal
from pipecatapp.workflow import ToolFailed

T = TypeVar("T", bound=BaseModel)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
CHECKS: TypeAdapter[list[Check]] = TypeAdapter(list[Check])


class Folder:
    """Numbered JSON files of one kind."""

    def __init__(self, root: Path, kind: str) -> None:
        if not root.is_absolute():
            raise ToolFailed(f"{root} is not a valid folder: use an absolute path in ports.yaml.")
        self._root = root / kind

    def path(self, name: str) -> Path:
        """The file of a name; raises `ToolFailed` for what is not a plain name."""
        if not NAME.fullmatch(name):
            raise ToolFailed(f"{name!r} is not a valid id.")
        return self._root / f"{name}.json"

    def read(self, name: str, model: type[T]) -> T:
        """One entry; raises `ToolFailed`."""
        try:
            return model.model_validate_json(self.path(name).read_bytes())
        except FileNotFoundError:
            raise ToolFailed(f"There is no {name!r} in {self._root}.") from None
        except ValidationError as error:
            raise ToolFailed(f"{self.path(name)} is not valid: {error}") from error

    def all(self, model: type[T]) -> list[T]:
        """All entries, the newest first."""
        numbers = sorted((int(one.stem) for one in self._root.glob("*.json")), reverse=True)
        return [self.read(str(number), model) for number in numbers]

    def next_number(self) -> str:
        """The number of a new entry."""
        return str(max((int(one.stem) for one in self._root.glob("*.json")), default=0) + 1)

    def write(self, name: str, value: BaseModel) -> None:
        """Write one entry."""
        text = json.dumps(value.model_dump(), indent=1, ensure_ascii=False) + "\n"
        write_atomic(self.path(name), text)


class FileTracker:
    """Issues as files."""

    def __init__(self, root: Path) -> None:
        self._issues = Folder(root, "issues")
        self._writing = asyncio.Lock()

    async def list(self, state: IssueState | None) -> Sequence[Issue]:
        """Issues without comments, the newest first."""
        issues = await asyncio.to_thread(self._issues.all, Issue)
        wanted = (issue for issue in issues if state in (None, issue.state))
        return [issue.model_copy(update={"comments": []}) for issue in wanted]

    async def show(self, id: str) -> Issue:
        """One issue with its comments."""
        return await asyncio.to_thread(self._issues.read, id, Issue)

    async def create(self, title: str, text: str, labels: Sequence[str]) -> Issue:
        """A new issue under the next number."""
        async with self._writing:
            number = await asyncio.to_thread(self._issues.next_number)
            issue = Issue(id=number, title=title, text=text, state="open", labels=list(labels))
            await asyncio.to_thread(self._issues.write, number, issue)
            return issue

    async def comment(self, id: str, text: str) -> None:
        """Add a comment."""
        async with self._writing:
            issue = await self.show(id)
            changed = issue.model_copy(update={"comments": [*issue.comments, text]})
            await asyncio.to_thread(self._issues.write, id, changed)

    async def close(self, id: str) -> None:
        """Close an issue."""
        async with self._writing:
            issue = await self.show(id)
            changed = issue.model_copy(update={"state": "closed"})
            await asyncio.to_thread(self._issues.write, id, changed)


class FileCi:
    """Results that a job has written: `checks/<commit>.json`, a list."""

    def __init__(self, root: Path) -> None:
        self._checks = Folder(root, "checks")

    async def status(self, commit: str) -> Sequence[Check]:
        """The results of a commit."""
        path = self._checks.path(commit)
        try:
            return CHECKS.validate_json(await asyncio.to_thread(path.read_bytes))
        except FileNotFoundError:
            return []
        except ValidationError as error:
            raise ToolFailed(f"{path} is not valid: {error}") from error


class FileScm:
    """Proposals as files."""

    def __init__(self, root: Path) -> None:
        self._proposals = Folder(root, "proposals")
        self._writing = asyncio.Lock()

    async def propose(self, branch: str, into: str, title: str, text: str) -> Proposal:
        """A new proposal under the next number."""
        async with self._writing:
            number = await asyncio.to_thread(self._proposals.next_number)
            proposal = Proposal(id=number, branch=branch, into=into, title=title, text=text)
            await asyncio.to_thread(self._proposals.write, number, proposal)
            return proposal

    async def proposals(self) -> Sequence[Proposal]:
        """All proposals."""
        return await asyncio.to_thread(self._proposals.all, Proposal)


def tracker(settings: PortSettings, _token: str) -> FileTracker:
    """The tracker of a folder."""
    return FileTracker(Path(settings.folder))


def ci(settings: PortSettings, _token: str) -> FileCi:
    """The results of a folder."""
    return FileCi(Path(settings.folder))


def scm(settings: PortSettings, _token: str) -> FileScm:
    """The proposals of a folder."""
    return FileScm(Path(settings.folder))
