"""The `hearth` command: every part of Hearth adds its own, and none brings the others along."""

import re
from importlib.metadata import entry_points

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from hearth.cli import GROUP, build_cli, build_list
from hearth.summaries import SUMMARIES


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


def test_list_of_commands_has_the_first_sentence_of_each_command() -> None:
    """`hearth --help` loads no command, so nothing else keeps its list complete and current."""
    commands = get_group(build_cli()).commands

    listed = {name: text for group in SUMMARIES.values() for name, text in group.items()}
    assert listed == {
        name: first_sentence(command.help or "") for name, command in commands.items()
    }
    shown = CliRunner().invoke(build_list(), ["--help"]).stdout
    assert all(f" {name} " in shown for name in commands)
    assert all(f" {group} " in shown for group in SUMMARIES)


def first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


@pytest.mark.parametrize("words", [["keys", "add"], ["runs", "prune"], ["lab", "up"], ["say"]])
def test_help_names_values_in_words(words: list[str]) -> None:
    """Python's types, such as `<list[str]>` and `<int range>`, mean nothing to a user."""
    help_text = CliRunner().invoke(build_cli(), [*words, "--help"]).stdout

    assert re.search("TEXT|NUMBER|PATH", help_text)
    assert not re.search(r"<\w|list\[| range|\bbool\b", help_text)
