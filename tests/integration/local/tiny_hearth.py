"""The `hearth` command with its real supervisor, running tiny services in place of our own.

`python -m tests.integration.local.tiny_hearth up --state-dir D --port-base N`; the traits of the
services come as JSON in the file `traits.json` of the state directory: name -> keywords of `_tiny`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hearth.local import cli
from hearth.local.commands import detach
from hearth.local.commands.screen import Terminal
from hearth.local.commands.up import up
from hearth.local.embedded import Plan
from hearth.local.environment import child_environment
from hearth.local.options import Options
from hearth.local.process.service import Service
from hearth.service.names import LLAMA_EXPERT, MOE_GATEWAY, PIPECATAPP, port_of
from hearth.settings import Settings

TINY = Path(__file__).with_name("tiny.py")
NAMES = (LLAMA_EXPERT, MOE_GATEWAY, PIPECATAPP)


def tiny_services(options: Options, console: Console) -> Plan:
    """Three tiny services under the names and on the ports of ours."""
    file = options.state.root / "traits.json"
    traits = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return Plan([_tiny(name, options, **traits.get(name, {})) for name in NAMES], ("One hint.",))


def _tiny(
    name: str,
    options: Options,
    *,
    arguments: Sequence[str] = (),
    start_seconds: float = 60,
    stop_seconds: float = 60,
) -> Service:
    port = port_of(name, options.port_base)
    return Service(
        name=name,
        command=(sys.executable, "-P", str(TINY), str(port), *arguments),
        port=port,
        environment=child_environment({}),
        start_seconds=start_seconds,
        stop_seconds=stop_seconds,
    )


def up_tiny(
    state_dir: Annotated[Path, typer.Option()],
    port_base: Annotated[int, typer.Option()],
    *,
    detached: Annotated[bool, typer.Option("--detach")] = False,
) -> None:
    """As `hearth up`, with tiny services."""
    with cli.errors_reported():
        options = Options.of(Settings.load(), state_dir=state_dir, port_base=port_base)
    console = Terminal()
    if not detached:
        raise typer.Exit(cli.exit_code_of(lambda: up(options, console, plan=tiny_services)))
    code = detach.detached(
        lambda let_go: cli.exit_code_of(
            lambda: up(options, console, plan=tiny_services, let_go=let_go)
        ),
        options.state.logs / "hearth.log",
    )
    raise typer.Exit(code)


def main() -> None:
    app = typer.Typer(pretty_exceptions_enable=False)
    cli.commands(app)
    app.registered_commands = [c for c in app.registered_commands if c.name != "up"]
    app.command("up")(up_tiny)
    app()


if __name__ == "__main__":
    main()
