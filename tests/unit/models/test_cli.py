"""`hearth models`, as a person types it."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from hearth.models import catalogue
from hearth.models.catalogue import Catalogue
from hearth.models.cli import commands
from tests.unit.models.conftest import CONTENT

Run = Callable[..., Result]

ENTRY = f"""\
models:
  smollm2: &entry
    about: The small one.
    source: {{kind: file, path: OWN}}
    file: tiny.gguf
    sha256: {hashlib.sha256(CONTENT).hexdigest()}
    license: Apache-2.0
    parameters: 1M
    context: 512
    chat_template: embedded
    tools: none
    ram_bytes: 1000
    origin: https://example.org/tiny
  clever:
    <<: *entry
    about: The clever one.
    parameters: 2M
  giant:
    <<: *entry
    about: The one for a machine that does not exist yet.
    ram_bytes: 1000000000000000
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("list")` is `hearth models list` with a catalogue of three and a fresh state."""
    own, file = tmp_path / "own.gguf", tmp_path / "models.yaml"
    own.write_bytes(CONTENT)
    file.write_text(ENTRY.replace("OWN", str(own)), encoding="utf-8")
    monkeypatch.setattr(catalogue, "shipped_catalogue", lambda: file)
    app = typer.Typer()
    commands(app)
    state = ["--state-dir", str(tmp_path / "state")]
    return lambda *words: CliRunner().invoke(app, ["models", *words, *state])


def test_model_goes_through_its_life(run: Run) -> None:
    """Pull, use, another one, remove: what the help page promises, in that order."""
    steps = [
        ("pull", "clever"),
        ("use", "clever"),
        ("remove", "clever"),
        ("pull", "smollm2"),
        ("use", "smollm2"),
        ("remove", "clever"),
        ("remove", "clever"),
    ]

    results = [run(*step) for step in steps]

    assert [result.exit_code for result in results] == [0, 0, 1, 0, 0, 0, 0]
    assert "The next `hearth up` serves clever; if it fails, smollm2." in results[1].output
    assert "clever is in use: the expert tries clever, then smollm2. Choose" in results[2].output
    assert "The next `hearth up` serves smollm2." in results[4].output
    assert results[5].output == "clever is removed.\n"
    assert results[6].output == "clever was not here.\n"


def test_list_tells_what_is_here_what_fits_and_what_is_in_use(run: Run) -> None:
    """One look decides what to pull."""
    run("pull", "clever")

    lines = {line.split()[0]: line for line in run("list").output.splitlines()}

    assert "in use, not" in lines["smollm2"]
    assert "pulled" in lines["clever"]
    assert "too big" in lines["giant"]


def test_list_is_the_catalogue_and_nothing_else(run: Run) -> None:
    """There is one registry: what a program reads from the command is what the file says."""
    rows = json.loads(run("list", "--json").output)["models"]

    assert [row["name"] for row in rows] == list(Catalogue.load().models)
    assert [row["about"] for row in rows] == [m.about for m in Catalogue.load().models.values()]
    assert [row["in_use"] for row in rows] == [True, False, False]
    assert [row["fits"] for row in rows] == [True, True, False]
    assert not any(row["installed"] for row in rows)


@pytest.mark.parametrize("command", ["pull", "use", "remove"])
def test_misspelt_name_is_one_line_with_the_right_one(run: Run, command: str) -> None:
    """Nobody wants a traceback for a typing mistake."""
    result = run(command, "cleverr")

    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "The catalogue has no model 'cleverr'. Did you mean clever? "
        "`hearth models list` shows the names."
    ]


def test_model_is_pulled_before_it_is_used(run: Run) -> None:
    """The message is the command to type next."""
    result = run("use", "clever")

    assert result.exit_code == 1
    assert result.output == "clever is not pulled. Get it with `hearth models pull clever`.\n"
