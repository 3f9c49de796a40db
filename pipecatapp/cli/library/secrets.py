"""`hearth secrets`: the values that projects only name. They never travel: the running service
reads the same files.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from hearth.service.state import StateDir, ensure_state_dir
from hearth.settings import Settings as HearthSettings
from pipecatapp.cli.exit_codes import INVALID, CommandFailed, exit_codes
from pipecatapp.cli.options import JsonOption, StateOption

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the secret, which projects refer to as `kept:NAME`."
    ),
]


def list_secrets(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """List the names of the stored secrets. Values are never shown."""
    if context.invoked_subcommand is None:
        names = _kept(state_dir).names()
        text = json.dumps({"secrets": names}, indent=2) if as_json else "\n".join(names)
        typer.echo(text or "No secrets.")


def keep_secret(name: NameArgument, state_dir: StateOption = None) -> None:
    """Store a secret. The value is read from the terminal or from standard input."""
    with exit_codes():
        value = (
            typer.prompt(f"{name}", hide_input=True, err=True)
            if sys.stdin.isatty()
            else sys.stdin.read().removesuffix("\n")
        )
        try:
            _kept(state_dir).keep(name, value)
        except ValueError as error:
            raise CommandFailed(str(error), code=INVALID) from error
    typer.echo(f"Secret {name} is stored. Projects refer to it as `kept:{name}`.")


def remove_secret(name: NameArgument, state_dir: StateOption = None) -> None:
    """Remove a secret."""
    with exit_codes():
        _kept(state_dir).remove(name)


def _kept(state_dir: Path | None) -> Any:
    state = StateDir(state_dir or HearthSettings.load().state_dir)
    ensure_state_dir(state)
    return import_module("pipecatapp.application.secrets").Secrets(state.root / "secrets", {})
