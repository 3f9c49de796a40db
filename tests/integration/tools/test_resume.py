"""A run's folder survives SIGKILL at any moment, as its ledger does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOG = "write\nrun\n"


@pytest.mark.timeout(1200)
def test_folder_is_wound_back_to_what_the_ledger_knows(tmp_path: Path) -> None:
    """Every step adds a line: one that was cut off and is made again must not add two, and none
    may be lost.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "tests.integration.tools.victim", str(tmp_path)],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    cases = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(cases) > 20
    for case in cases:
        assert (case["signal"], case["resumed"]) == (9, 0), case
        assert case["result"]["outputs"] == {"ran": LOG, "last": f"{LOG}aside\n"}, case
