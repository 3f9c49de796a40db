"""The tools of the CI and the source control, on files, git and a server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed
from tests.integration.tools.ports.conftest import git
from tests.integration.tools.ports.server import Server

STATUS = TOOLS["ci.status"]
PROPOSE, PROPOSALS = TOOLS["scm.propose"], TOOLS["scm.proposals"]
Ports = Callable[[str, str], Context]
CHECKS = [
    {"name": "lint", "state": "success", "url": ""},
    {"name": "test", "state": "failure", "url": "x"},
]


def results(use: str, commit: str, *, tmp_path: Path, repository: Path, server: Server) -> None:
    """What a job leaves behind."""
    if use == "files":
        (tmp_path / "files" / "checks").mkdir(parents=True)
        (tmp_path / "files" / "checks" / f"{commit}.json").write_text(json.dumps(CHECKS))
    elif use == "git":
        git(repository, "notes", "--ref", "ci", "add", "-m", json.dumps(CHECKS), commit)
    else:
        server.statuses[commit] = [
            {"context": one["name"], "status": one["state"], "target_url": one["url"]}
            for one in CHECKS
        ]


@pytest.mark.proves("003-13")
@pytest.mark.parametrize("use", ["files", "git", "forgejo"])
async def test_state_of_a_commit_is_that_of_its_worst_check(
    ports: Ports, use: str, tmp_path: Path, repository: Path, server: Server
) -> None:
    """One failed job is a failure; a commit that nothing ran for says so."""
    ctx = ports("ci", use)
    commit = git(repository, "rev-parse", "task").strip()
    other = git(repository, "rev-parse", "main").strip()
    results(use, commit, tmp_path=tmp_path, repository=repository, server=server)

    told = await STATUS.check(ctx, {"commit": commit})

    assert told == {"state": "failure", "checks": CHECKS}
    assert await STATUS.check(ctx, {"commit": other}) == {"state": "none", "checks": []}


@pytest.mark.proves("003-13")
@pytest.mark.parametrize("use", ["files", "git", "forgejo"])
async def test_branch_is_proposed_and_listed(ports: Ports, use: str) -> None:
    """A person finds it where the organisation looks for such things."""
    ctx = ports("scm", use)

    made = await PROPOSE.check(ctx, {"branch": "task", "title": "Add a page", "text": "Because."})

    (listed,) = (await PROPOSALS.check(ctx, {}))["proposals"]
    assert (made["branch"], made["into"]) == ("task", "main")
    assert listed["id"] == made["id"]
    assert (listed["title"], listed["text"], listed["state"]) == ("Add a page", "Because.", "open")


async def test_merged_branch_is_a_merged_proposal_and_an_unknown_one_is_refused(
    ports: Ports, repository: Path
) -> None:
    """Git itself knows whether a branch was merged."""
    ctx = ports("scm", "git")
    await PROPOSE.check(ctx, {"branch": "task", "title": "Add a page"})
    git(repository, "merge", "-q", "task")

    (listed,) = (await PROPOSALS.check(ctx, {}))["proposals"]

    assert listed["state"] == "merged"
    with pytest.raises(ToolFailed, match="has no commit 'refs/heads/nosuch'"):
        await PROPOSE.check(ctx, {"branch": "nosuch", "title": "x"})
    with pytest.raises(ToolFailed, match="has no commit '--help'"):
        await STATUS.check(ports("ci", "git"), {"commit": "--help"})
