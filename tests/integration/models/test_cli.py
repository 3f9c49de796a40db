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
from hearth.settings import Settings
from tests.integration.models.conftest import CONTENT
from tests.shown import Shown

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
  qwen3-4b:
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


@pytest.mark.proves("002-22")
def test_model_goes_through_its_life(run: Run, shown: Shown) -> None:
    """Pull, use, another one, remove: what the guide promises, in that order."""
    pull, use = (line.split() for line in shown.take("docs/howto/models.md").splitlines())
    (remove,) = (line.split() for line in shown.take("docs/howto/models.md").splitlines())
    own = [["hearth", "models", word, "smollm2"] for word in ("pull", "use")]

    results = []
    for program, group, *words in (pull, use, remove, *own, remove, remove):
        assert (program, group) == ("hearth", "models")
        results.append(run(*words))

    name = pull[-1]
    assert [result.exit_code for result in results] == [0, 0, 1, 0, 0, 0, 0]
    assert f"The next `hearth up` serves {name}; if it fails, smollm2." in results[1].output
    assert f"{name} is in use: the expert uses {name}, or else smollm2. Choose" in results[2].output
    assert "The next `hearth up` serves smollm2." in results[4].output
    assert results[5].output == f"{name} was removed.\n"
    assert results[6].output == f"{name} was not installed.\n"


@pytest.mark.proves("002-22")
def test_list_tells_what_is_here_what_fits_and_what_is_in_use(run: Run) -> None:
    """One look decides what to pull."""
    run("pull", "qwen3-4b")

    lines = {line.split()[0]: line for line in run("list").output.splitlines() if line}

    assert "in use, not" in lines["smollm2"]
    assert "pulled" in lines["qwen3-4b"]
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
    result = run(command, "qwen3-4br")

    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "The catalogue has no model 'qwen3-4br'. Did you mean qwen3-4b? "
        "`hearth models list` shows the names."
    ]


def test_model_is_pulled_before_it_is_used(run: Run) -> None:
    """The message is the command to type next."""
    result = run("use", "qwen3-4b")

    assert result.exit_code == 1
    assert result.output == "qwen3-4b is not pulled. Get it with `hearth models pull qwen3-4b`.\n"


def test_state_directory_that_is_none_is_one_line(run: Run, tmp_path: Path) -> None:
    """A path that was mistyped, or that belongs to somebody else, is told as what it is."""
    (tmp_path / "state").write_text("a file", encoding="ascii")
    result = run("list")

    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert result.output.startswith(f"{tmp_path}/state/")
    assert result.output.endswith(" cannot be used: Not a directory.\n")


def test_home_in_the_setting_is_the_home_of_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a unit or a file of variables no shell expands `~`: models were kept in a folder `~`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEARTH_STATE_DIR", "~/kept")

    assert Settings.load().state_dir == tmp_path / "kept"
