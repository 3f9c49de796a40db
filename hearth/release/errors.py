"""Errors of building a release.

ReleaseError
├── CommandFailed     a command of the build failed
├── ArtifactUnknown   artifacts.yaml has no entry of that name
└── ChecksumMissing   the vendor's list has no checksum for an archive
"""

from collections.abc import Sequence
from difflib import get_close_matches


class ReleaseError(Exception):
    """Base of all errors of this package; the message states the remedy."""


class CommandFailed(ReleaseError):
    """Correct the cause that its output names; the first build needs a package index."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        self.command, self.output = list(command), output
        super().__init__(f"`{' '.join(command[:4])} …` failed:\n{output.strip()}")


class ArtifactUnknown(ReleaseError):
    """Choose an entry of group_vars/all/artifacts.yaml, or add one first."""

    def __init__(self, name: str, *, known: Sequence[str]) -> None:
        self.name, self.known = name, list(known)
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Its entries are {', '.join(known)}."
        super().__init__(f"artifacts.yaml has no entry {name!r}. {hint}")


class ChecksumMissing(ReleaseError):
    """Choose a version that the vendor has published for every architecture."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        super().__init__(f"{source} has no checksum of {file}. Choose another version.")
