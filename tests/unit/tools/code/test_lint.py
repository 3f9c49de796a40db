"""The command with which ruff shows its fixes."""

import pytest

from pipecatapp.tools.code.fix.lint import with_diff


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ruff check .", "ruff check --diff ."),
        ("python3 -m ruff check --fix src", "python3 -m ruff check --diff src"),
        ("bin/ruff format --check .", "bin/ruff format --diff ."),
        ("ruff", None),
        ("ruff rule F401", None),
        ("grep -r ruff check", None),
        ("pytest -q", None),
    ],
)
def test_fixes_are_shown_as_a_diff(command: str, shown: str | None) -> None:
    """Nothing is changed before it is known what would be."""
    assert with_diff(command.split()) == (None if shown is None else shown.split())
