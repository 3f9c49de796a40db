"""Repairs and new programs survive SIGKILL; `make bench` kills the service after every event."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.agent.code.victim import TASKS, faults


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TASKS)
def test_killed_run_ends_with_the_same_commit_on_one_branch(name: str, tmp_path: Path) -> None:
    """Cut off a request, a change, a command, a question and the delivery.

    Nothing that ended is repeated. The program comes out the same only if the guidance of the
    person and the further feature are in the prompts after each restart.
    """
    words = ["-m", "tests.integration.agent.code.victim", str(tmp_path), name, "some"]
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    whole, *killed = [json.loads(line) for line in ended.stdout.splitlines()]
    assert whole["status"] == "done"
    assert len(whole["branches"]) == 1
    assert len(killed) == len(TASKS[name].some)
    for case in killed:
        assert faults(whole, case) == [], (case["when"], case["count"])
