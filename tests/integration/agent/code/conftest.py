"""The commands of `hearth code` beside a running instance with a scripted model."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.integration.agent.conftest import House, Json, follow
from tests.integration.agent.test_cli import Hearth, announce, command


@pytest.fixture
def hearth(empty_house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hearth]:
    """The command beside a running instance."""
    with empty_house.running():
        announce(empty_house)
        yield command(empty_house, monkeypatch)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def follow_until(client: httpx2.Client, run: str, event: str, path: str = "") -> Json:
    """Wait for an event of a run, at a path if one is given, and return the run."""
    with client.stream("GET", f"/api/runs/{run}/events") as answer:
        follow(answer, until=event, path=path)
    view: Json = client.get(f"/api/runs/{run}").json()
    return view


def prompts(house: House) -> list[str]:
    """What the model was asked, one text for each request."""
    return [each.body["messages"][-1]["content"] for each in house.model.requests]


def repository(root: Path, files: dict[str, str]) -> Path:
    """A git repository with one commit of these files on the branch main."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root)
    return root


def commit(root: Path) -> None:
    """Commit all files of a repository."""
    git(root, "add", ".")
    git(root, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "Change")
