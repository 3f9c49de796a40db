"""`hearth models`: list, download, choose, measure and remove models."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hearth.models.catalogue import Catalogue, SpeechModel
from hearth.models.choice import choose, remove, with_model
from hearth.models.errors import ModelError
from hearth.models.evaluate import evaluate
from hearth.models.evaluation import Evaluation
from hearth.models.listing import row_of, speech_row_of
from hearth.models.progress_bar import Bar
from hearth.models.pull import pull, pull_speech
from hearth.models.store import ModelStore
from hearth.service.control import ControlFailed, Request, control_of, send
from hearth.service.settings import SettingsError
from hearth.service.state import StateDir
from hearth.settings import Settings

Name = Annotated[str, typer.Argument(help="Name of a model, as `hearth models list` shows it.")]
StateOption = Annotated[
    Path | None, typer.Option("--state-dir", help="State directory of the instance.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def commands(app: typer.Typer) -> None:
    """Add the group `models` to the command."""
    group = typer.Typer(
        help="List, download, choose, measure and remove models.", no_args_is_help=True
    )
    group.command("list")(list_models)
    group.command("pull")(pull_model)
    group.command("use")(use_model)
    group.command("remove")(remove_model)
    group.command("eval")(evaluate_model)
    app.add_typer(group, name="models")


def list_models(state_dir: StateOption = None, *, as_json: JsonOption = False) -> None:
    """List the models of the catalogue with their state: in use, pulled, fits, too big."""
    with errors_reported():
        state = _state(state_dir)
        catalogue = _catalogue()
        rows = [row_of(model, state) for model in catalogue.models.values()]
        speech = [speech_row_of(model, state) for model in catalogue.speech.values()]
    if as_json:
        typer.echo(json.dumps({"models": rows, "speech": speech}, indent=2))
    else:
        Console().print(_table(rows))
        if speech:
            Console().print("", _speech_table(speech))


def pull_model(name: Name, state_dir: StateOption = None) -> None:
    """Download and verify a model."""
    with errors_reported():
        catalogue, store = _catalogue(), ModelStore(_state(state_dir).models)
        model = catalogue.speech.get(name) or catalogue[name]
        with Bar(name, Console(stderr=True)) as bar:
            if isinstance(model, SpeechModel):
                path = pull_speech(model, store, bar)
            else:
                path = pull(model, store, bar)
    typer.echo(f"{name} is installed: {path}")


def use_model(name: Name, state_dir: StateOption = None) -> None:
    """Use this model: now if Hearth is running, otherwise from the next `hearth up` on."""
    with errors_reported():
        state, catalogue = _state(state_dir), _catalogue()
        control = control_of(state)
        if control is not None:
            with_model(name, state, catalogue)
            send(control, Request(action="serve", name=name))
            typer.echo(f"The expert now serves {name}.")
            return
        choice = choose(name, state, catalogue)
    rest = ", then ".join(choice.models[1:])
    typer.echo(f"The next `hearth up` serves {name}" + (f"; if it fails, {rest}." if rest else "."))


def remove_model(name: Name, state_dir: StateOption = None) -> None:
    """Delete a model that is not in use."""
    with errors_reported():
        removed = remove(name, _state(state_dir), _catalogue())
    typer.echo(f"{name} was removed." if removed else f"{name} was not installed.")


def evaluate_model(
    name: Annotated[
        str, typer.Argument(help="A model or an expert; default: the one that answers `auto`.")
    ] = "auto",
    seconds: Annotated[
        float, typer.Option("--seconds", min=10, max=300, help="Time for all tasks.")
    ] = 300.0,
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Measure what a model can do here: tools, JSON, code, English, German, and its speed.

    Hearth must be running. The tasks take five minutes at most. `hearth models list` shows the
    result.
    """
    with errors_reported():
        evaluation, tasks = evaluate(_state(state_dir), name, seconds)
    if as_json:
        result = evaluation.model_dump(mode="json")
        typer.echo(json.dumps({"evaluation": result, "tasks": tasks}, indent=2))
        return
    for task in tasks:
        typer.echo(f"{task['id']}: {'done' if task['done'] else task['reason']}")
    typer.echo(f"{evaluation.model}: {evaluation.summary()}")


@contextmanager
def errors_reported() -> Iterator[None]:
    """Report errors that a user can correct in one line; exit code 1."""
    try:
        yield
    except (ModelError, SettingsError, ControlFailed) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        typer.echo(f"{error.filename} cannot be used: {error.strerror}.", err=True)
        raise typer.Exit(1) from error


def _catalogue() -> Catalogue:
    return Catalogue.load(Settings.load().catalogue)


def _state(given: Path | None) -> StateDir:
    return StateDir(given or Settings.load().state_dir)


def _speech_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("Speech", "Language", "Engine", "Size", "Memory", "State", "About"):
        table.add_column(title, justify="right" if title in ("Size", "Memory") else "left")
    for row in rows:
        size, memory = f"{row['size_bytes'] / 1e6:.0f} MB", f"{row['ram_bytes'] / 1e9:.1f} GB"
        state = "pulled" if row["installed"] else ""
        table.add_row(
            row["name"], row["language"], row["engine"], size, memory, state, row["about"]
        )
    return table


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("Model", "Size", "Memory", "State", "About"):
        table.add_column(title, justify="right" if title in ("Size", "Memory") else "left")
    for row in rows:
        memory, about = f"{row['ram_bytes'] / 1e9:.1f} GB", row["about"]
        if row["evaluation"]:
            about += f"\n{Evaluation.model_validate(row['evaluation']).summary()}"
        table.add_row(row["name"], row["parameters"], memory, _condition(row), about)
    return table


def _condition(row: dict[str, Any]) -> str:
    """Return the state of a model in a few words: in use, pulled, or whether it fits."""
    if row["in_use"]:
        return "in use" if row["installed"] else "in use, not pulled"
    if row["installed"]:
        return "pulled"
    return "fits" if row["fits"] else "too big"
