"""The `hearth` command: every part of Hearth adds its own, and none brings the others along."""

from importlib.metadata import entry_points

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from hearth.cli import GROUP, build_cli, build_list


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


def test_list_of_commands_is_what_the_commands_say() -> None:
    """`hearth --help` loads no command, and must not tell of others or of older ones."""
    shown, loaded = (
        CliRunner().invoke(app, ["--help"]).stdout for app in (build_list(), build_cli())
    )

    assert shown == loaded
