"""Read the files of a stored state from the git directory, without its folder."""

import os
from dataclasses import dataclass
from typing import Final

from pipecatapp.workspace.git import Git

FILES: Final = ("100644", "100755")
"""Modes of regular files; links and submodules have others."""


@dataclass(frozen=True)
class StoredFile:
    """A regular file of a state. `size` is in bytes, `blob` the id of its content."""

    path: str
    size: int
    blob: str


async def files_of(git: Git, state: str) -> dict[str, StoredFile]:
    """Return the regular files of a state by path; a name that is not UTF-8 has surrogates."""
    _, listed = await git("ls-tree", "-r", "-l", "-z", "--full-tree", state)
    found = (_file(line) for line in listed.split(b"\0") if line)
    return {one.path: one for one in found if one is not None}


async def content_of(git: Git, file: StoredFile) -> bytes:
    """Return the bytes of a file."""
    _, content = await git("cat-file", "blob", file.blob)
    return content


def _file(line: bytes) -> StoredFile | None:
    facts, _, name = line.partition(b"\t")
    mode, _, blob, size = facts.decode("ascii").split()
    return StoredFile(os.fsdecode(name), int(size), blob) if mode in FILES else None
