"""Interfaces to a bug tracker, a CI, a source control and a chat, independent of the provider.

A new implementation is one module with the functions `tracker`, `ci`, `scm` and `messages`, or some
of them, which make a port from its settings, and an entry in `opening.IMPLEMENTATIONS`.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

IssueState = Literal["open", "closed"]
CheckState = Literal["success", "failure", "pending"]


class Issue(BaseModel):
    """An issue of a tracker."""

    id: str
    title: str
    text: str
    state: IssueState
    labels: list[str] = []
    comments: list[str] = []
    """Oldest first; a list of issues has none."""


class Check(BaseModel):
    """The result of one job of a CI for a commit."""

    name: str
    state: CheckState
    url: str = ""


class Proposal(BaseModel):
    """A branch that is proposed to be merged."""

    id: str
    branch: str
    into: str
    title: str
    text: str = ""
    state: Literal["open", "merged", "closed"] = "open"
    url: str = ""


class Tracker(Protocol):
    """Issues. Methods raise `ToolFailed` for an unknown id and when the tracker does not answer."""

    async def list(self, state: IssueState | None) -> Sequence[Issue]:
        """Issues, the newest first; without a state all."""

    async def show(self, id: str) -> Issue:
        """One issue with its comments."""

    async def create(self, title: str, text: str, labels: Sequence[str]) -> Issue:
        """A new issue."""

    async def comment(self, id: str, text: str) -> None:
        """Add a comment."""

    async def close(self, id: str) -> None:
        """Close an issue."""


class Ci(Protocol):
    """Results of jobs."""

    async def status(self, commit: str) -> Sequence[Check]:
        """The results for a commit; empty where nothing ran."""


class Scm(Protocol):
    """Proposals to merge branches."""

    async def propose(self, branch: str, into: str, title: str, text: str) -> Proposal:
        """Propose a branch that the repository has."""

    async def proposals(self) -> Sequence[Proposal]:
        """All proposals, the newest first."""


class Messages(Protocol):
    """A channel where people read."""

    async def send(self, text: str) -> None:
        """Write a message to the channel; raises `ToolFailed` where it is not accepted."""


class PortSettings(BaseModel):
    """Where one port is. Fields that an implementation does not use are ignored."""

    use: str = Field(description="files, git, forgejo or webhook.")
    folder: str = ""
    """Of `files`."""
    repository: str = ""
    """Of `git`: its folder. Of `forgejo`: owner/name."""
    url: str = ""
    token: str = ""
    """Reference to the secret, such as `kept:forgejo`. Of `webhook`: its whole address."""


class PortsSettings(BaseModel):
    """The ports that a person has set up; None where there is none."""

    model_config = ConfigDict(extra="forbid")

    tracker: PortSettings | None = None
    ci: PortSettings | None = None
    scm: PortSettings | None = None
    messages: PortSettings | None = None
