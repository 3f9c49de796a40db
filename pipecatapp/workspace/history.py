"""The files of a project and their versions, over the hidden commits of all of its runs.

A project is the repository from which workspaces are created. Only the states of the runs are
stored, so deleting a run deletes its versions.
"""

import asyncio
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Final

from pipecatapp.workspace.folders import ASKED
from pipecatapp.workspace.git import Git
from pipecatapp.workspace.worktree import MAIN, NAME

RUNS: Final = 200
"""Number of runs that are read, the newest first."""
LARGEST: Final = 1 << 20
"""Bytes of a file that is returned."""


@dataclass(frozen=True)
class StoredFile:
    """The latest content of a file: the last state of the newest run that has it."""

    path: str
    run: str
    blob: str


@dataclass(frozen=True)
class Version:
    """A state in which the content of a file changed; `blob` is None if it was deleted."""

    run: str
    state: str
    at: datetime
    about: str
    blob: str | None


@dataclass(frozen=True)
class Line:
    """A line of the latest content that has a text."""

    path: str
    line: int
    text: str


class History:
    """The states of the runs of one source below `root`.

    `runs` are those that may be read; the ids of runs begin with their time.
    """

    def __init__(self, root: Path, source: Path, runs: Collection[str]) -> None:
        self._root, self._source = root, str(source)
        self._readable = runs

    async def runs(self) -> list[str]:
        """The runs of this source, the newest first."""
        return await asyncio.to_thread(lambda: list(self._runs())[:RUNS])

    def _runs(self) -> Iterator[str]:
        for run in sorted(self._readable, reverse=True):
            asked = self._git(run).directory / ASKED
            if not NAME.fullmatch(run) or not asked.is_file():
                continue
            source, _ = json.loads(asked.read_text(encoding="ascii"))
            if source == self._source:
                yield run

    async def files(self, name: str = "") -> list[StoredFile]:
        """The latest content of each file whose path has `name`, in the order of the paths."""
        found: dict[str, StoredFile] = {}
        for run in await self.runs():
            _, listed = await self._git(run)("ls-tree", "-r", "-z", self._head(run))
            for entry in filter(None, listed.split(b"\0")):
                facts, path = entry.decode(errors="replace").split("\t", 1)
                _, kind, blob = facts.split(" ")
                if kind == "blob" and name.lower() in path.lower():
                    found.setdefault(path, StoredFile(path, run, blob))
        return [found[path] for path in sorted(found)]

    async def search(self, text: str, files: Sequence[StoredFile], limit: int) -> list[Line]:
        """The lines of these files that have a text, whatever its case; no binary files."""
        found: list[Line] = []
        for run in dict.fromkeys(file.run for file in files):
            paths = {file.path for file in files if file.run == run}
            words = ("grep", "-n", "-z", "-I", "-i", "-F", "-e", text, self._head(run))
            code, said = await self._git(run)(*words, ok=(0, 1))
            for entry in said.decode(errors="replace").splitlines() if code == 0 else ():
                place, number, line = entry.split("\0", 2)
                path = place.split(":", 1)[1]
                if path in paths:
                    found.append(Line(path, int(number), line[:500]))
        return sorted(found, key=lambda one: (one.path, one.line))[:limit]

    async def versions(self, path: str, limit: int) -> list[Version]:
        """Return the versions of a file, the newest first; a version with which a later run starts
        is not repeated.
        """
        found: list[Version] = []
        for run in await self.runs():
            found += await self._versions(run, path)
        changed = [
            one
            for one, before in zip_longest(found, found[1:])
            if before is None or before.blob != one.blob
        ]
        return changed[:limit]

    async def _versions(self, run: str, path: str) -> list[Version]:
        git = self._git(run)
        states, file = f"--glob=refs/hearth/{run}/", f":(literal){path}"
        words = ("log", "--topo-order", "--format=%x01%H %ct %s", "--raw", "--no-abbrev",
                 "--no-renames", states, "--", file)  # fmt: skip
        _, said = await git(*words)
        found = []
        for entry in said.decode(errors="replace").split("\x01")[1:]:
            head, *changes = entry.strip().splitlines()
            state, seconds, about = head.split(" ", 2)
            blobs = [one.split()[3] for one in changes if one.startswith(":")]
            if blobs:
                blob = None if set(blobs[0]) == {"0"} else blobs[0]
                at = datetime.fromtimestamp(int(seconds), UTC)
                found.append(Version(run, state, at, about, blob))
        return found

    async def content(self, run: str, blob: str) -> str:
        """The text of a version; of more than `LARGEST` bytes the beginning."""
        _, data = await self._git(run)("cat-file", "blob", blob)
        return data[:LARGEST].decode(errors="replace")

    def _git(self, run: str) -> Git:
        return Git(self._root / run / "git")

    def _head(self, run: str) -> str:
        return f"refs/hearth/{run}/heads/{MAIN}"
