"""`hearth home`: join a Home Assistant in both directions, leave it, show it."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hearth.service.state import StateDir, ensure_state_dir, read_instance
from hearth.settings import Settings as HearthSettings
from pipecatapp.cli.exit_codes import DONE, FAILED, CommandFailed, finish
from pipecatapp.cli.options import JsonOption, StateOption
from pipecatapp.client import Json, connect

SECRET: Final = "home-assistant"
JOIN_SECONDS: Final = 200.0
"""Home Assistant calls the model twice, which a small machine may load first."""


def home_commands(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="Join a Home Assistant, leave it, and show it.", invoke_without_command=True
    )
    group.callback()(show_home)
    group.command("join")(join_home)
    group.command("leave")(leave_home)
    group.command("status")(show_home)
    app.add_typer(group, name="home")


def join_home(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Address of Home Assistant, such as http://homeassistant.local:8123.",
        ),
    ],
    secret: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the stored secret with the token (`hearth secrets set NAME`). Default:"
            " the token is read from the terminal or from standard input, and stored.",
            show_default=False,
        ),
    ] = None,
    hearth_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Address at which Home Assistant reaches Hearth, such as"
            " http://192.168.1.5:8080/v1. Default: the gateway's address on this machine.",
            show_default=False,
        ),
    ] = "",
    state_dir: StateOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Connect a Home Assistant in both directions: it can use Hearth as a conversation agent, and
    Hearth its devices. Use a long-lived access token of an administrator there."""
    finish(_join(url, secret, hearth_url, state_dir, as_json=as_json))


def leave_home(
    state_dir: StateOption = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also if Home Assistant does not answer.")
    ] = False,
) -> None:
    """Remove what `hearth home join` has added to Home Assistant and to Hearth."""
    finish(_leave(state_dir, force=force))


def show_home(
    context: typer.Context, state_dir: StateOption = None, *, as_json: JsonOption = False
) -> None:
    """Show the Home Assistant that is joined and its devices. The exit code is 1 if a direction
    does not work."""
    if context.invoked_subcommand is None:
        finish(_show(state_dir, as_json=as_json))


async def _join(
    url: str, secret: str | None, hearth_url: str, state_dir: Path | None, *, as_json: bool
) -> int:
    state = StateDir(state_dir or HearthSettings.load().state_dir)
    if read_instance(state) is None:
        raise CommandFailed("Hearth is not running. Start it with `hearth up`, and try again.")
    secrets = _secrets(state)
    stored = secret is None and _store(secrets)
    try:
        async with connect(state_dir) as client:
            body = {"url": url, "secret": secret or SECRET, "hearth_url": hearth_url}
            home = await client.request("POST", "/api/home", body, timeout=JOIN_SECONDS)
    except BaseException:
        if stored:
            secrets.remove(SECRET)
        raise
    if as_json:
        typer.echo(json.dumps(home, indent=2, ensure_ascii=False))
    else:
        _print(home)
    return FAILED if home["problem"] else DONE


async def _leave(state_dir: Path | None, *, force: bool) -> int:
    async with connect(state_dir) as client:
        answer = await client.request(
            "DELETE", "/api/home", params={"force": force}, timeout=JOIN_SECONDS
        )
    for line in answer["removed"]:
        typer.echo(line)
    return DONE


async def _show(state_dir: Path | None, *, as_json: bool) -> int:
    async with connect(state_dir) as client:
        home = await client.request("GET", "/api/home")
    if as_json:
        typer.echo(json.dumps(home, indent=2, ensure_ascii=False))
    elif home["joined"] is None:
        typer.echo("No Home Assistant is joined. Join one with `hearth home join URL`.")
    else:
        _print(home)
    return FAILED if home["problem"] else DONE


def _store(secrets: Any) -> bool:
    """Store the token; return whether it is new. Raises `CommandFailed`."""
    token = (
        typer.prompt("Long-lived access token of Home Assistant", hide_input=True, err=True)
        if sys.stdin.isatty()
        else sys.stdin.read()
    ).strip()
    if not token:
        raise CommandFailed(
            "There is no token. Create a long-lived access token in your profile in Home Assistant,"
            " under Security, and give it to this command."
        )
    if SECRET in secrets.names():
        raise CommandFailed(
            f"The secret {SECRET} exists already. Use it with `--secret {SECRET}`, or remove it"
            f" with `hearth secrets remove {SECRET}`."
        )
    secrets.keep(SECRET, token)
    return True


def _secrets(state: StateDir) -> Any:
    ensure_state_dir(state)
    return import_module("pipecatapp.application.secrets").Secrets(state.root / "secrets", {})


def _print(home: Json) -> None:
    joined, devices = home["joined"], home["devices"]
    typer.echo(f"Home Assistant {joined['version']} ({joined['name']}) at {joined['url']}")
    typer.echo(
        f"It asks Hearth at {joined['hearth_url']} with the key {joined['key']}, as its"
        f" conversation agent {joined['agent']}."
    )
    typer.echo(f"Hearth has {home['tools']} of its tools: mcp/home/*.")
    shown = (
        ", ".join(devices) or "none (expose devices in Home Assistant: Settings, Voice assistants)"
    )
    typer.echo(f"Devices that it shows: {shown}")
    if home["problem"]:
        typer.echo(home["problem"], err=True)
