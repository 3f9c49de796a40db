"""The files of a project over all of its runs: list, search, show, export and clear them."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pipecatapp.application.engine import Engine, Ledger
from pipecatapp.workspace.folders import GitWorkspaces
from pipecatapp.workspace.history import History, Line, Version

FORMAT = 1
VERSIONS = 100
"""Versions of one file."""


class UnknownFile(LookupError):
    """No run of this project has such a file."""


class ProjectFiles(BaseModel):
    """The paths of files, and the lines that have the text that was looked for."""

    files: list[str]
    lines: list[dict[str, Any]]


class ProjectFile(BaseModel):
    """A file with its versions, the newest first."""

    path: str
    content: str
    versions: list[dict[str, Any]]


class CodeMemory:
    """The workspaces of the runs in one ledger. `owner` is the name of a key, empty for the
    built-in one, which sees all runs.
    """

    def __init__(self, engine: Engine) -> None:
        self._ledger: Ledger = engine.ledger
        self._workspaces = engine.workspaces

    async def find(
        self, source: Path, name: str, text: str, limit: int, *, owner: str = ""
    ) -> ProjectFiles:
        """The files whose path has `name`; with `text` the lines that have it, too."""
        history = self._history(source, owner)
        if history is None:
            return ProjectFiles(files=[], lines=[])
        files = await history.files(name)
        lines = await history.search(text, files, limit) if text else []
        return ProjectFiles(
            files=[one.path for one in files[:limit]], lines=[_line(one) for one in lines]
        )

    async def show(self, source: Path, path: str, *, owner: str = "") -> ProjectFile:
        """One file with its history; raises `UnknownFile`."""
        history = self._history(source, owner)
        files = [] if history is None else await history.files()
        found = next((one for one in files if one.path == path), None)
        if history is None or found is None:
            raise UnknownFile(f"No run of {source} has a file {path!r}.")
        return ProjectFile(
            path=path,
            content=await history.content(found.run, found.blob),
            versions=[
                await _version(history, one) for one in await history.versions(path, VERSIONS)
            ],
        )

    async def export(self, source: Path, *, owner: str = "") -> str:
        """All files with their versions as JSON."""
        history = self._history(source, owner)
        names = [] if history is None else [one.path for one in await history.files()]
        files = [(await self.show(source, path, owner=owner)).model_dump() for path in names]
        content = {"format": FORMAT, "source": str(source), "files": files}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    async def clear(self, source: Path, *, owner: str = "") -> int:
        """Remove the files of all ended runs of a project; returns the number of runs with files.

        The runs stay in the list, without their files.
        """
        history, workspaces = self._history(source, owner), self._workspaces
        if history is None or not isinstance(workspaces, GitWorkspaces):
            return 0
        ended = {str(row["id"]) for row in self._rows("AND ended IS NOT NULL", owner)}
        cleared = [run for run in await history.runs() if run in ended]
        for run in cleared:
            await workspaces.prune(run)
        return len(cleared)

    def _history(self, source: Path, owner: str) -> History | None:
        if not isinstance(self._workspaces, GitWorkspaces):
            return None
        runs = {str(row["id"]) for row in self._rows("", owner)}
        return History(self._workspaces.root, source, runs)

    def _rows(self, condition: str, owner: str) -> list[Any]:
        sql = f"SELECT id FROM run WHERE ? IN ('', owner) {condition}"
        return list(self._ledger.read.rows(sql, (owner,)))


def _line(one: Line) -> dict[str, Any]:
    return {"path": one.path, "line": one.line, "text": one.text}


async def _version(history: History, one: Version) -> dict[str, Any]:
    """A version with its content, null where the file was removed."""
    content = await history.content(one.run, one.blob) if one.blob else None
    return {
        "run": one.run, "state": one.state, "at": one.at.isoformat(), "about": one.about,
        "content": content,
    }  # fmt: skip
