"""The `hearth` command. Its sub-commands come from the entry points `hearth.commands`."""

import sys
from importlib.metadata import entry_points

import typer

GROUP = "hearth.commands"


def build_cli(word: str = "") -> typer.Typer:
    """Collect the sub-commands of every installed package.

    Each entry point is a function that takes the application and adds its commands to it. Where
    one carries the name of the command that is asked for, the others are not loaded: they bring
    half of Hearth along.
    """
    app = typer.Typer(
        name="hearth",
        help="One private AI from the computers of a home.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    found = entry_points(group=GROUP)
    for entry in sorted(found.select(name=word) or found, key=lambda entry: entry.name):
        entry.load()(app)
    return app


def main() -> None:
    """Run the command line; the exit code is the command's."""
    try:
        build_cli(next(iter(sys.argv[1:]), ""))()
    except UnicodeEncodeError as error:
        # A word of the command line that is no UTF-8 came to where only text can be written.
        told = error.object.encode(errors="replace").decode()
        sys.exit(f"{told[:200]!r} is no UTF-8 text: look at the settings of the terminal.")
