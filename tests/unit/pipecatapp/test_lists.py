"""Commands that list something."""

import pytest
import typer
from typer.main import get_command

from pipecatapp.cli import commands

APP = typer.Typer()
commands(APP)
AGENTS = "code"
"""A group of agents, which lists nothing."""
GROUPS = {
    name: group
    for name, group in get_command(APP).commands.items()  # type: ignore[attr-defined]
    if hasattr(group, "commands") and name != AGENTS
}


@pytest.mark.parametrize("name", GROUPS)
def test_every_list_has_a_form_for_programs(name: str) -> None:
    """Who scripts against the shell must not have to take a table apart."""
    group = GROUPS[name]

    assert group.invoke_without_command
    assert "--json" in [word for option in group.params for word in option.opts]


def test_there_are_lists() -> None:
    """A check of nothing would pass."""
    assert {"runs", "workflows", "tasks", "prompts", "projects", "secrets"} <= GROUPS.keys()
