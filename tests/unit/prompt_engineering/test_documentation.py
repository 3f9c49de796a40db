"""The pages on prompt evolution and self-adaptation against the code that they describe."""

import re
from pathlib import Path
from typing import get_args

import pytest

from prompt_engineering.adaptation import MOST_ATTEMPTS
from prompt_engineering.cases import Check
from prompt_engineering.diagnosis import Action
from prompt_engineering.gate import GIVE_UP_BELOW, MOST_COST, PROMOTE_AT
from prompt_engineering.repairs import MOST_REPAIRS, Kind
from prompt_engineering.selection import METHODS
from tests.rules.tree import ROOT

PACKAGE = ROOT / "prompt_engineering"
NUMBERS = {3: "three"}
SECTION = re.compile(r"^## (.+?)$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """The sections of a page by their titles, each on one line."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return {title: " ".join(body.split()) for title, body in SECTION.findall(text)}


@pytest.mark.proves("004-08")
def test_architecture_describes_self_adaptation_as_it_is() -> None:
    """It names every action, and each module that it names is there."""
    text = sections("architecture.md")["Self-adaptation"]

    files = re.findall(r"`(?:prompt_engineering/)?([\w/]+\.(?:py|md))`", text)
    homes = (PACKAGE, ROOT / "pipecatapp")
    assert {"supervisor.py", "reflect.py", "adaptation_manager.py", "campaign.py"} <= {*files}
    assert [file for file in files if not any((home / file).is_file() for home in homes)] == []
    assert [action for action in get_args(Action) if f"`{action}`" not in text] == []


@pytest.mark.proves("004-08")
def test_guide_names_the_options_and_limits_of_the_code() -> None:
    """A number that changes in the code changes in the guide."""
    page = sections("howto/evolve-prompts.md")
    adapting, running = page["Adapt to a failure"], page["Run a campaign"]

    assert [kind for kind in Kind if f"`--allow {kind}`" not in adapting] == []
    assert f"at most {NUMBERS[MOST_ATTEMPTS]} campaigns" in adapting
    assert f"at most {NUMBERS[MOST_REPAIRS]} repairs a day" in adapting
    assert [method for method in METHODS if f"`{method}`" not in running] == []
    for text in (
        f"{PROMOTE_AT:g} (at most 1 of",
        f"below {GIVE_UP_BELOW:g}",
        f"{MOST_COST:g} times",
    ):
        assert text in running
    conditions = [name for name in Check.model_fields if name not in {"output", "ends"}]
    assert [name for name in conditions if f"`{name}`" not in page["Write cases"]] == []


def test_guide_names_every_command_of_the_package() -> None:
    """Each module with a `main` can be run."""
    text = sections("howto/evolve-prompts.md")["Commands of the package"]
    commands = [
        file.stem
        for file in sorted(Path(PACKAGE).glob("*.py"))
        if 'if __name__ == "__main__"' in file.read_text(encoding="utf-8")
    ]

    assert "supervisor" in commands
    assert [name for name in commands if f"`{name}`" not in text] == []
