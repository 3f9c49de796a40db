"""An error at a line of the project, and the project around it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from pipecatapp.sandbox.bubblewrap import WORK
from pipecatapp.sandbox.tree import open_plain, walk
from pipecatapp.tools.code.errors import ProgramError

FILES: Final = 500
"""Files that are searched for names."""
LARGEST: Final = 1 << 20
"""Bytes of a file that is read."""
DEPTH: Final = 100
SKIPPED: Final = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv"})


@dataclass(frozen=True)
class Candidate:
    """A change of one file that may repair the error."""

    kind: str
    about: str
    text: str
    """The whole file afterwards."""


@dataclass(frozen=True)
class Problem:
    """An error, the file that has it, and the files of the project by their paths."""

    error: ProgramError
    path: str
    line: int
    files: dict[str, str]

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the file, with their ends."""
        return self.files[self.path].splitlines(keepends=True)

    @property
    def wrong(self) -> str:
        """The line of the error."""
        return self.lines[self.line - 1]

    def changed(self, kind: str, new: str, *, line: int | None = None) -> Candidate:
        """Replace a line, by default that of the error."""
        at = line or self.line
        old = self.lines[at - 1]
        text = "".join((*self.lines[: at - 1], new, *self.lines[at:]))
        return Candidate(kind, f"line {at}: {old.strip()!r} becomes {new.strip()!r}", text)

    def inserted(self, kind: str, new: str, *, line: int) -> Candidate:
        """Insert a line before another."""
        text = "".join((*self.lines[: line - 1], f"{new}\n", *self.lines[line - 1 :]))
        return Candidate(kind, f"line {line}: {new!r} is added", text)


def problem_of(error: ProgramError | None, root: Path, folder: str) -> Problem | None:
    """Return the innermost place of an error in a Python file of the project, if there is one."""
    if error is None:
        return None
    files: dict[str, str] | None = None
    for frame in reversed(error.frames):
        path = _relative(frame.file, folder)
        if not frame.own or frame.line is None or path is None or not path.endswith(".py"):
            continue
        files = files or dict(_files(root))
        if path in files and 0 < frame.line <= len(files[path].splitlines()):
            return Problem(error, path, frame.line, files)
    return None


def _relative(file: str, folder: str) -> str | None:
    path = PurePosixPath(WORK, folder, file)
    return str(path.relative_to(WORK)) if path.is_relative_to(WORK) else None


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the Python files of a workspace."""
    entries = (one.path for one in walk(root, depth=DEPTH, skip=SKIPPED) if one.is_file)
    for path in islice((path for path in entries if path.endswith(".py")), FILES):
        with os.fdopen(open_plain(root, path), "rb") as stream:
            data = stream.read(LARGEST + 1)
        if len(data) <= LARGEST:
            try:
                yield path, data.decode()
            except UnicodeDecodeError:
                continue
