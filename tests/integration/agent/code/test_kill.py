"""A repair of a bug survives SIGKILL of the service; `make bench` kills it after every event."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.agent.code.victim import SOME, faults


@pytest.mark.timeout(600)
def test_killed_repair_ends_with_the_same_commit_on_one_branch(tmp_path: Path) -> None:
    """Cut off a request, a change, a command and the delivery: nothing that ended is repeated."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.integration.agent.code.victim", str(tmp_path), "some"],
        cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    whole, *killed = [json.loads(line) for line in ended.stdout.splitlines()]
    assert whole["status"] == "done"
    assert len(whole["branches"]) == 1
    assert len(killed) == len(SOME)
    for case in killed:
        assert faults(whole, case) == [], (case["when"], case["count"])
