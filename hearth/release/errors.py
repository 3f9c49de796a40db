"""Errors of building a release.

ReleaseError
├── CommandFailed     a program that was needed ended with an error
├── ArtifactUnknown   artifacts.yaml has no entry of that name
└── ChecksumMissing   the vendor's list names no archive for an architecture
"""

from collections.abc import Sequence
from difflib import get_close_matches


class ReleaseError(Exception):
    """Base of all errors of this package; the message states the remedy."""


class CommandFailed(ReleaseError):
    """Read its output, correct the cause and run this again; wheels need a package index once."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        self.command, self.output = list(command), output
        super().__init__(f"`{' '.join(command[:4])} …` failed:\n{output.strip()}")


class ArtifactUnknown(ReleaseError):
    """Name an entry of group_vars/all/artifacts.yaml, or add one there first."""

    def __init__(self, name: str, *, known: Sequence[str]) -> None:
        self.name, self.known = name, list(known)
        near = get_close_matches(name, known, n=1)
        question = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(known)}."
        super().__init__(f"artifacts.yaml has no entry {name!r}.{question}")


class ChecksumMissing(ReleaseError):
    """The vendor published no such version for it: choose another version."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        super().__init__(f"{source} names no {file}.")
