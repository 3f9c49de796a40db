"""The static checks are tests, so that one command runs all there is."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import cache
from tests.rules.tree import ROOT

BIN = Path(sys.executable).parent
MYPY_CACHE = ROOT / ".mypy_cache"
MYPY_KEY: list[cache.Part] = [
    ROOT / "requirements" / "dev.lock",
    ROOT / "pyproject.toml",
    sys.version,
]
CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "arrows": ["lint-imports"],
    "spelling": ["codespell"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_static_check_is_clean(check: str) -> None:
    """Style, import arrows and spelling are not a matter of opinion in a review."""
    assert_clean(*CHECKS[check])


def test_types_are_clean() -> None:
    """A type error is a bug that needs no test to be found.

    A clone begins with the cache of the last run, which mypy checks against the sources.
    """
    cache.seed("mypy", MYPY_KEY, MYPY_CACHE)

    assert_clean("mypy")

    cache.publish("mypy", MYPY_KEY, MYPY_CACHE)


def assert_clean(program: str, *arguments: str) -> None:
    ended = subprocess.run(
        [BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
