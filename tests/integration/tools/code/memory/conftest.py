"""A git workspace with a bug, a ledger, and results of its test."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pipecatapp.tools.code.errors.result import frame, program_error
from pipecatapp.tools.code.testing.outcome import CaseOutcome, CaseResult, Tested
from pipecatapp.workflow import Context, Ledger
from pipecatapp.workspace import GitWorkspaces

BROKEN = 'def total(a, b):\n    """Add."""\n    return a * (1 + b)\n'
FIXED = BROKEN.replace("1 + b", "1 - b")


def results(outcome: CaseOutcome, *, others: CaseOutcome = "passed") -> Tested:
    """The results of `test_total` and one other test."""
    error = program_error(
        "AssertionError", "assert 30.0 == 10.0", [frame("test_p.py", 2, "test_total")]
    )
    cases = {"test_p.py::test_total": outcome, "test_p.py::test_other": others}
    ok = outcome == others == "passed"
    return Tested(
        ok=ok, exit_code=0 if ok else 1, stopped=None, per_test=True, passed=0, failed=0, errors=0,
        skipped=0, tests_left_out=0, error=None if ok else error, stdout="", stderr="", seconds=1,
        tests=[
            CaseResult(id=id, outcome=one, seconds=1, message="", file="test_p.py", line=1)
            for id, one in cases.items()
        ],
    )  # fmt: skip


def _git(folder: Path, *words: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
async def call(tmp_path: Path) -> AsyncIterator[Context]:
    """A call in the workspace of a run whose file `p.py` has the bug."""
    (source := tmp_path / "source").mkdir()
    (source / "p.py").write_text(BROKEN)
    _git(source, "init", "-q", "-b", "main")
    _git(source, "add", "-A")
    _git(source, "commit", "-qm", "Begin")
    worktree = await GitWorkspaces(tmp_path / "workspaces").open("r", source)
    ledger = Ledger(tmp_path / "ledger.db")
    await ledger.hold(lambda event: None)
    try:
        yield Context(
            run="r", path="remember", workspace=worktree.folder, worktree=worktree,
            services={Ledger: ledger},
        )  # fmt: skip
    finally:
        await ledger.let_go()
        ledger.close()
