"""The `hearth` command. Its sub-commands come from the entry points `hearth.commands`."""

import sys
from importlib import import_module
from importlib.metadata import entry_points

import typer

from hearth.summaries import SUMMARIES

GROUP = "hearth.commands"


def build_cli(word: str = "") -> typer.Typer:
    """Collect the sub-commands of every installed package.

    Each entry point has the name of a command, and is a function that takes the application and
    adds it, with others of its package. Of a command that is asked for, only the package is loaded:
    the others bring half of Hearth along.
    """
    import_module("hearth.service")  # before rich, which the logs would load all of
    app = _empty()
    found = entry_points(group=GROUP)
    packages = {entry.value: entry for entry in found.select(name=word) or found}
    for _, entry in sorted(packages.items()):
        entry.load()(app)
    return app


def _empty() -> typer.Typer:
    return typer.Typer(
        name="hearth",
        help="One private AI from the computers of a home.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )


def build_list() -> typer.Typer:
    """Build the list of all commands with their summaries, and load none of them."""
    app = _empty()
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(lambda: None)
    return app


def main() -> None:
    """Run the command line; the exit code is the command's."""
    word = next(iter(sys.argv[1:]), "")
    try:
        (build_list() if word in ("", "--help") else build_cli(word))()
    except UnicodeEncodeError as error:
        # A word of the command line that is no UTF-8 came to where only text can be written.
        told = error.object.encode(errors="replace").decode()
        sys.exit(f"{told[:200]!r} is no UTF-8 text: look at the settings of the terminal.")
