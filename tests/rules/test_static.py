"""The static checks are tests, so that one command runs all there is."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.tree import ROOT

BIN = Path(sys.executable).parent
CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "arrows": ["lint-imports"],
    "spelling": ["codespell"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_static_check_is_clean(check: str) -> None:
    """Style, types, import arrows and spelling are not a matter of opinion in a review."""
    program, *arguments = CHECKS[check]

    ended = subprocess.run(
        [BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
