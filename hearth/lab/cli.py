"""`hearth lab`: real hosts on this machine, to try an inventory on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hearth.lab import programs
from hearth.lab.errors import LabError
from hearth.lab.lab import Lab, LabStatus
from hearth.lab.systems import DEFAULT, SYSTEMS
from hearth.service.settings import SettingsError

NOTHING_RUNS = 3
"""Exit code of `hearth lab status`, as of `hearth status`."""

NameOption = Annotated[
    str | None,
    typer.Option("--name", help="Which lab, of several side by side (lab).", show_default=False),
]
NodeArgument = Annotated[str, typer.Argument(help="Name of one host, such as node1.")]
LayerArgument = Annotated[str, typer.Argument(help="Name of the golden layer.")]

lab_app = typer.Typer(
    help="Real hosts on this machine, to try an inventory on; needs root.", no_args_is_help=True
)


def commands(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(lab_app, name="lab")


@lab_app.command("up")
def up_command(
    nodes: Annotated[int, typer.Argument(help="How many hosts.")],
    name: NameOption = None,
    layer: Annotated[
        str | None, typer.Option("--from", help="Golden layer that new hosts begin with.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Operating system of new hosts ({', '.join(SYSTEMS)}), or of one of them:"
            " `node3=debian-13`. May be repeated.",
            show_default=DEFAULT,
        ),
    ] = None,
) -> None:
    """Start that many hosts: those that run are left alone, those that are off are switched on."""
    chosen = [word.rpartition("=") for word in system or []]
    of_all = [name for node, _, name in chosen if not node]
    of_one = {node: name for node, _, name in chosen if node}
    with told(name) as lab:
        for node in lab.up(
            nodes, layer=layer, system=of_all[-1] if of_all else DEFAULT, systems_of=of_one
        ):
            typer.echo(f"{node.name}  {node.address}")


@lab_app.command("down")
def down_command(name: NameOption = None) -> None:
    """Remove the lab to the last trace; golden layers stay."""
    with told(name) as lab:
        there = lab.down()
    typer.echo("Removed." if there else f"No lab {lab.name!r} is up.")


@lab_app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_command(
    words: Annotated[list[str], typer.Argument(help="The command, after `--`.")],
    name: NameOption = None,
) -> None:
    """Run a command where the hosts can be reached, and nothing else can."""
    with told(name) as lab:
        _become(lab.command(words))


@lab_app.command("shell")
def shell_command(node: NodeArgument, name: NameOption = None) -> None:
    """Log in to a host as root."""
    with told(name) as lab:
        _become(lab.node(node).ssh_command())


@lab_app.command("reboot")
def reboot_command(node: NodeArgument, name: NameOption = None) -> None:
    """Restart a host, or switch it on; return when it answers."""
    with told(name) as lab:
        lab.node(node).reboot()


@lab_app.command("kill")
def kill_command(node: NodeArgument, name: NameOption = None) -> None:
    """Cut the power of a host; `hearth lab reboot` gives it back."""
    with told(name) as lab:
        lab.node(node).kill()


@lab_app.command("cut")
def cut_command(node: NodeArgument, name: NameOption = None) -> None:
    """Pull the network cable of a host."""
    with told(name) as lab:
        lab.node(node).cut()


@lab_app.command("heal")
def heal_command(node: NodeArgument, name: NameOption = None) -> None:
    """Put the network cable of a host back."""
    with told(name) as lab:
        lab.node(node).heal()


@lab_app.command("move")
def move_command(
    node: NodeArgument,
    address: Annotated[str, typer.Argument(help="Its address from now on.")],
    name: NameOption = None,
) -> None:
    """Give a host another address, as a router may do."""
    with told(name) as lab:
        lab.move(node, address)


@lab_app.command("wipe")
def wipe_command(node: NodeArgument, name: NameOption = None) -> None:
    """Put an empty disk into a host, with a bare Debian; its name and its address stay."""
    with told(name) as lab:
        lab.wipe(node)


@lab_app.command("save")
def save_command(layer: LayerArgument, name: NameOption = None) -> None:
    """Keep what the hosts have become; they are stopped for it, and go on from there."""
    with told(name) as lab:
        lab.save(layer)


@lab_app.command("drop")
def drop_command(layer: LayerArgument) -> None:
    """Remove a golden layer."""
    with told(None) as lab:
        lab.drop(layer)


@lab_app.command("status")
def status_command(
    name: NameOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the hosts and the golden layers; exit code 3 when the lab is not up."""
    with told(name) as lab:
        status = lab.status()
    if as_json:
        typer.echo(status.model_dump_json(indent=2))
    else:
        _show(status)
    raise typer.Exit(0 if status.up else NOTHING_RUNS)


@contextmanager
def told(name: str | None) -> Iterator[Lab]:
    """What a person can mend is said on standard error; exit code 1."""
    try:
        programs.check()
        yield Lab(name, tell=lambda text: typer.echo(text, err=True))
    except (LabError, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _show(status: LabStatus) -> None:
    if not status.up:
        typer.echo(f"No lab {status.name!r} is up.")
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for node in status.nodes:
            cable = "" if node.connected else "cut"
            table.add_row(node.name, str(node.address), node.state, node.system, cable)
        Console().print(table)
    if status.layers:
        typer.echo(f"Golden layers: {', '.join(status.layers)}")


def _become(command: list[str]) -> None:
    """This process goes on as that command, so that signals and the terminal are its own."""
    os.execvp(command[0], command)
