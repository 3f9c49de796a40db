"""Coding workflows and chains of autonomy survive SIGKILL; `make bench` kills at every event."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.agent.code.victim import SCENARIOS, faults

EXTENDED_INPUTS = ["pipecatapp/workflow/**", "tests/integration/agent/code/victim.py"]
SHORT = "fix"
"""The scenario that is no test of the extended ring."""


@pytest.mark.extended
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != SHORT])
def test_killed_run_ends_with_the_same_result(tmp_path: Path, scenario: str) -> None:
    """Cut off a request, a change, a command and the delivery: nothing that ended is repeated.

    The program comes out the same only if the guidance of the person and the further feature are in
    the prompts after each restart. The coordinator does the added item once. A chain of autonomy
    has no branch; a confirmed workflow is started once.
    """
    expect_the_same(tmp_path, scenario)


@pytest.mark.extended
@pytest.mark.timeout(900)
def test_killed_fix_of_a_bug_ends_with_the_same_branch(tmp_path: Path) -> None:
    """Cut off a request, a change, a command and the delivery: nothing that ended is repeated."""
    expect_the_same(tmp_path, SHORT)


def expect_the_same(folder: Path, scenario: str) -> None:
    """Fail unless each run that was killed ended as the one that was not."""
    ended = subprocess.run(
        [
            sys.executable, "-m", "tests.integration.agent.code.victim",
            str(folder), "some", scenario,
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
