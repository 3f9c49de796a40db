"""Coding workflows and chains of autonomy survive SIGKILL; `make bench` kills at every event."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.agent.code.victim import SCENARIOS, faults


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_run_ends_with_the_same_result(tmp_path: Path, scenario: str) -> None:
    """Cut off a request, a change, a command and the delivery: nothing that ended is repeated.

    The program comes out the same only if the guidance of the person and the further feature are in
    the prompts after each restart. The coordinator does the added item once. A chain of autonomy
    has no branch; a confirmed workflow is started once.
    """
    ended = subprocess.run(
        [
            sys.executable, "-m", "tests.integration.agent.code.victim",
            str(tmp_path), "some", scenario,
        ],
        cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    whole, *killed = [json.loads(line) for line in ended.stdout.splitlines()]
    assert whole["status"] == "done"
    assert whole["branches"] == whole["expected"]
    assert len(whole["branches"]) == bool(SCENARIOS[scenario].files)
    assert len(killed) == len(SCENARIOS[scenario].some)
    for case in killed:
        assert faults(whole, case) == [], (case["when"], case["count"])
