"""`hearth models eval` beside a running instance, and what reads its result."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from hearth.models.cli import commands
from tests.integration.agent.conftest import House
from tests.integration.agent.library.test_models import ran
from tests.integration.agent.test_cli import announce
from tests.integration.tools.model.evaluation.test_evaluate import script


def models(state: Path, *words: str) -> Result:
    """Run `hearth models …` on a state directory."""
    app = typer.Typer()
    commands(app)
    return CliRunner().invoke(app, ["models", *words, "--state-dir", str(state)])


def test_result_is_printed_listed_and_read_by_the_choice_of_the_edit_format(
    empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command measures; the list of models and `code.approach` show what it found."""
    monkeypatch.setenv("COLUMNS", "200")
    script(empty_house.model)
    empty_house.model.expert = {"name": "fast", "model": "smollm2", "healthy": True}
    document = """
id: choose
steps: [{id: how, use: code.approach}]
outputs: {asked: "{{ how.asked }}", green: "{{ how.green }}", served: "{{ how.served }}"}
"""
    with empty_house.running(), empty_house.client() as client:
        announce(empty_house)
        done = models(empty_house.state, "eval")
        listed = models(empty_house.state, "list")
        rows = json.loads(models(empty_house.state, "list", "--json").stdout)["models"]
        view = ran(client, document)

    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "tool-one: done"
    assert (
        "blocks-empty: The change is refused: The answer does not contain an edit of a file."
        in lines
    )
    summary = "tools 1/3, json 1/3, blocks 1/3, function 1/3, english 1/3, german 1/3, "
    assert lines[-1].startswith(f"smollm2: {summary}")
    assert summary in listed.stdout
    (row,) = [one for one in rows if one["name"] == "smollm2"]
    assert row["evaluation"]["scores"]["tools"] == {"tried": 3, "done": 1}
    assert view["outputs"] == {"asked": 3, "green": 1, "served": "smollm2"}


def test_without_an_instance_nothing_is_measured(tmp_path: Path) -> None:
    """The error says what to do."""
    done = models(tmp_path, "eval")

    assert done.exit_code == 1
    assert done.stderr == "Hearth is not running. Start it with `hearth up`.\n"


def test_damaged_result_is_one_clear_sentence(tmp_path: Path) -> None:
    """The list names the file that is to be removed."""
    (tmp_path / "evaluations.json").write_text("[]")

    done = models(tmp_path, "list")

    assert done.exit_code == 1
    assert done.stderr.startswith(
        f"{tmp_path / 'evaluations.json'} does not contain valid evaluations"
    )
