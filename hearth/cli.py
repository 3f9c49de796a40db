"""The `hearth` command. Its sub-commands come from the entry points `hearth.commands`."""

import re
import sys
from importlib import import_module
from importlib.metadata import entry_points

import typer
from typer.core import TyperArgument, TyperOption

from hearth.summaries import SUMMARIES

GROUP = "hearth.commands"
WORDS = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH", "file": "FILE"}
"""Names of value types in help texts, by Typer's name of the type."""


def _type_in_words(parameter: TyperArgument | TyperOption, context: typer.Context) -> str:
    """Return what a help text shows for the type of a parameter: nothing for a flag.

    Typer itself shows Python's types, such as `<list[str]>`, `<int range>` and `<bool>`.
    """
    kind = _python_type(parameter, context).strip("<>").removesuffix(" range")
    name = re.sub(r"^list\[(.*)\]$", r"\1", kind)
    return "" if name == "bool" else WORDS.get(name.lower(), name)


_python_type = TyperOption.display_type
for kind in (TyperArgument, TyperOption):
    kind.display_type = _type_in_words  # type: ignore[method-assign,assignment]


def build_cli(word: str = "") -> typer.Typer:
    """Collect the sub-commands of every installed package.

    Each entry point has the name of a command, and is a function that takes the application and
    adds it, with others of its package. If `word` names a command, only its package is loaded:
    the others take a second to import.
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
        rich_markup_mode="markdown",
    )


def build_list() -> typer.Typer:
    """Build the list of all commands with their summaries, without loading any of them."""
    app = _empty()
    for group, commands in SUMMARIES.items():
        for name, summary in commands.items():
            app.command(name, help=summary, rich_help_panel=group)(lambda: None)
    return app


def main() -> None:
    """Run the command line; the exit code is the command's."""
    word = next(iter(sys.argv[1:]), "")
    try:
        (build_list() if word in ("", "--help") else build_cli(word))()
    except UnicodeEncodeError as error:
        # A word of the command line is not valid UTF-8 and was to be written as text.
        text = error.object.encode(errors="replace").decode()
        sys.exit(f"{text[:200]!r} is not valid UTF-8. Check the language settings of the terminal.")
