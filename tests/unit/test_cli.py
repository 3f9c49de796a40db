"""The `hearth` command: every part of Hearth adds its own, and none brings the others along."""

from importlib.metadata import entry_points

import pytest
from typer.main import get_group

from hearth.cli import GROUP, build_cli


def commands_of(word: str = "") -> set[str]:
    """The names of what is there for a command line that begins with this word."""
    return set(get_group(build_cli(word)).commands)


def test_every_command_is_found_by_its_name() -> None:
    """One that no entry names loads half of Hearth each time, a second on a small machine."""
    assert commands_of() == {entry.name for entry in entry_points(group=GROUP)}


@pytest.mark.parametrize(("word", "other"), [("status", "plan"), ("plan", "status")])
def test_command_brings_no_other_part_along(word: str, other: str) -> None:
    """Who asks for the state of the house does not wait for the engine of workflows."""
    found = commands_of(word)

    assert word in found
    assert other not in found


def test_word_that_is_no_command_is_looked_for_among_all() -> None:
    """Whoever mistypes is told what was meant, wherever it comes from."""
    assert commands_of("statsu") == commands_of()
