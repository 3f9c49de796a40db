"""A run that is killed has already said which test failed, and why."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules import tree

EXTENDED_INPUTS = ["tests/at_once.py"]
pytestmark = pytest.mark.extended

TESTS = """
import os
import signal


def test_wrong():
    raise AssertionError("no cluster today")


def test_endless():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("option", ["--at-once", "--quiet"])
def test_failure_is_printed_when_it_happens(tmp_path: Path, option: str) -> None:
    """Without the option, only the mark of the failure is there."""
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.at_once", "-c", os.devnull, option, "."],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tree.ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ended.returncode == -9, ended.stdout
    assert ("test_wrong: call failed in 0 s" in ended.stdout) == (option == "--at-once")
    assert ("no cluster today" in ended.stdout) == (option == "--at-once")
