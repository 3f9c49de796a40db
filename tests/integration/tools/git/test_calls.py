"""Calls of git that are cancelled, take too long, or fail."""

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from pipecatapp.workspace import git
from pipecatapp.workspace.git import GitFailed, run


@pytest.fixture
def endless(tmp_path: Path) -> list[str]:
    """The words of a call that waits for somebody to write to a pipe."""
    os.mkfifo(tmp_path / "pipe")
    return ["hash-object", "--no-filters", str(tmp_path / "pipe")]


def left() -> list[str]:
    """The children of this process that are git."""
    return [child.name() for child in psutil.Process().children() if child.name() == "git"]


async def started() -> None:
    """Wait until git runs."""
    while not left():  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.01)


async def test_call_that_is_cancelled_leaves_no_process(endless: list[str], tmp_path: Path) -> None:
    """A run that a person stops must not go on in the background."""
    calling = asyncio.create_task(run(endless, tmp_path))
    await started()

    calling.cancel()

    with pytest.raises(asyncio.CancelledError):
        await calling
    assert left() == []


async def test_call_that_takes_too_long_is_ended_and_named(
    endless: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that hangs must not stop a run for ever."""
    monkeypatch.setattr(git, "ATTEMPT_SECONDS", 0.1)

    with pytest.raises(GitFailed, match=r"git hash-object took longer than 0 s\."):
        await run(endless, tmp_path)

    assert left() == []


async def test_error_has_the_last_line_of_what_git_printed(tmp_path: Path) -> None:
    """It is all that a person sees of it."""
    with pytest.raises(GitFailed, match="git rev-parse failed: fatal: not a git repository"):
        await run(["rev-parse", "HEAD"], tmp_path)


async def test_other_work_goes_on_while_git_runs(endless: list[str], tmp_path: Path) -> None:
    """git waits for a writer, which is this event loop."""
    calling = asyncio.create_task(run(endless, tmp_path))
    await started()

    (tmp_path / "pipe").write_text("a\n")

    assert await calling == (0, b"78981922613b2afb6025042ff6bd878ac1994e85\n")
