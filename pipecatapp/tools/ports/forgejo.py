"""Ports on the REST API of Forgejo and Gitea (`/api/v1`), which resembles that of GitHub.

Source: https://codeberg.org/api/swagger
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx2

from pipecatapp.tools.ports.port import (
    Check,
    CheckState,
    Issue,
    IssueState,
    PortSettings,
    Proposal,
)
from pipecatapp.workflow import ToolFailed

SECONDS: Final = 20.0
PAGE: Final = 50
STATES: Final[dict[str, CheckState]] = {
    "success": "success", "failure": "failure", "error": "failure", "warning": "failure",
}  # fmt: skip


class Forgejo:
    """One repository of a server."""

    def __init__(self, settings: PortSettings, token: str) -> None:
        if settings.repository.count("/") != 1:
            raise ToolFailed(f"{settings.repository!r} is not a valid repository: use owner/name.")
        owner, name = (quote(part, safe="") for part in settings.repository.split("/"))
        self._base = f"{settings.url.rstrip('/')}/api/v1/repos/{owner}/{name}"
        self._headers = {"authorization": f"token {token}"} if token else {}

    async def call(self, method: str, path: str, **named: Any) -> Any:
        """The JSON of an answer; raises `ToolFailed` where there is none."""
        try:
            async with httpx2.AsyncClient(
                headers=self._headers, timeout=SECONDS, trust_env=False
            ) as client:
                answer = await client.request(method, f"{self._base}{path}", **named)
        except httpx2.HTTPError as error:
            raise ToolFailed(f"The server does not answer: {type(error).__name__}.") from error
        if answer.status_code == httpx2.codes.NOT_FOUND:
            raise ToolFailed(f"The server does not know {path}.")
        if not answer.is_success:
            raise ToolFailed(f"The server refuses {method} {path}: {answer.status_code}.")
        return answer.json()

    async def list(self, state: IssueState | None) -> Sequence[Issue]:
        """Issues, the newest first."""
        params = {"type": "issues", "state": state or "all", "limit": PAGE}
        return [_issue(one) for one in await self.call("GET", "/issues", params=params)]

    async def show(self, id: str) -> Issue:
        """One issue with its comments."""
        path = f"/issues/{quote(id, safe='')}"
        issue = _issue(await self.call("GET", path))
        comments = await self.call("GET", f"{path}/comments")
        return issue.model_copy(update={"comments": [one["body"] for one in comments]})

    async def create(self, title: str, text: str, labels: Sequence[str]) -> Issue:
        """A new issue; labels that the repository does not have are left out."""
        known = await self.call("GET", "/labels", params={"limit": PAGE}) if labels else []
        ids = [one["id"] for one in known if one["name"] in labels]
        body = {"title": title, "body": text, "labels": ids}
        return _issue(await self.call("POST", "/issues", json=body))

    async def comment(self, id: str, text: str) -> None:
        """Add a comment."""
        await self.call("POST", f"/issues/{quote(id, safe='')}/comments", json={"body": text})

    async def close(self, id: str) -> None:
        """Close an issue."""
        await self.call("PATCH", f"/issues/{quote(id, safe='')}", json={"state": "closed"})

    async def status(self, commit: str) -> Sequence[Check]:
        """The results of a commit."""
        answer = await self.call("GET", f"/commits/{quote(commit, safe='')}/status")
        return [
            Check(
                name=one["context"],
                state=STATES.get(one["status"], "pending"),
                url=one.get("target_url") or "",
            )
            for one in answer.get("statuses") or []
        ]

    async def propose(self, branch: str, into: str, title: str, text: str) -> Proposal:
        """Open a pull request."""
        body = {"head": branch, "base": into, "title": title, "body": text}
        return _proposal(await self.call("POST", "/pulls", json=body))

    async def proposals(self) -> Sequence[Proposal]:
        """Pull requests, the newest first."""
        params = {"state": "all", "limit": PAGE}
        return [_proposal(one) for one in await self.call("GET", "/pulls", params=params)]


def _state(value: dict[str, Any]) -> IssueState:
    return "closed" if value["state"] == "closed" else "open"


def _issue(value: dict[str, Any]) -> Issue:
    return Issue(
        id=str(value["number"]),
        title=value["title"],
        text=value.get("body") or "",
        state=_state(value),
        labels=[label["name"] for label in value.get("labels") or []],
    )


def _proposal(value: dict[str, Any]) -> Proposal:
    return Proposal(
        id=str(value["number"]),
        branch=value["head"]["ref"],
        into=value["base"]["ref"],
        title=value["title"],
        text=value.get("body") or "",
        state="merged" if value.get("merged") else _state(value),
        url=value.get("html_url") or "",
    )


tracker = ci = scm = Forgejo
