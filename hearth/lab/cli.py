"""`hearth lab`: test hosts on this machine to try an inventory."""

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
from hearth.service.settings import SettingsError

NOTHING_RUNS = 3
"""Exit code of `hearth lab status`, as of `hearth status`."""

NameOption = Annotated[
    str | None,
    typer.Option("--name", help="Name of the lab, if there are several (lab).", show_default=False),
]
NodeArgument = Annotated[str, typer.Argument(help="Name of a host, such as node1.")]
LayerArgument = Annotated[str, typer.Argument(help="Name of the snapshot.")]

lab_app = typer.Typer(
    help="Run test hosts on this machine to try an inventory. Needs root.", no_args_is_help=True
)


def commands(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(lab_app, name="lab")


@lab_app.command("up")
def up_command(
    nodes: Annotated[int, typer.Argument(help="Number of hosts.")],
    name: NameOption = None,
    layer: Annotated[
        str | None, typer.Option("--from", help="Snapshot that new hosts start from.")
    ] = None,
) -> None:
    """Create and start hosts until this number runs. Running hosts are not changed."""
    with open_lab(name) as lab:
        for node in lab.up(nodes, layer=layer):
            typer.echo(f"{node.name}  {node.address}")


@lab_app.command("down")
def down_command(name: NameOption = None) -> None:
    """Remove the lab with all its hosts. Snapshots are kept."""
    with open_lab(name) as lab:
        there = lab.down()
    typer.echo("Removed." if there else f"Lab {lab.name!r} is not up.")


@lab_app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_command(
    words: Annotated[list[str], typer.Argument(help="The command, after `--`.")],
    name: NameOption = None,
) -> None:
    """Run a command in the lab's network namespace, which reaches only the hosts."""
    with open_lab(name) as lab:
        _become(lab.command(words))


@lab_app.command("shell")
def shell_command(node: NodeArgument, name: NameOption = None) -> None:
    """Log in to a host as root."""
    with open_lab(name) as lab:
        _become(lab.node(node).ssh_command())


@lab_app.command("reboot")
def reboot_command(node: NodeArgument, name: NameOption = None) -> None:
    """Restart a host, or start one that is off. Returns when the host responds."""
    with open_lab(name) as lab:
        lab.node(node).reboot()


@lab_app.command("kill")
def kill_command(node: NodeArgument, name: NameOption = None) -> None:
    """Power off a host without a shutdown. `hearth lab reboot` starts it again."""
    with open_lab(name) as lab:
        lab.node(node).kill()


@lab_app.command("cut")
def cut_command(node: NodeArgument, name: NameOption = None) -> None:
    """Disconnect a host from the network."""
    with open_lab(name) as lab:
        lab.node(node).cut()


@lab_app.command("heal")
def heal_command(node: NodeArgument, name: NameOption = None) -> None:
    """Connect a host to the network again."""
    with open_lab(name) as lab:
        lab.node(node).heal()


@lab_app.command("move")
def move_command(
    node: NodeArgument,
    address: Annotated[str, typer.Argument(help="The new address.")],
    name: NameOption = None,
) -> None:
    """Change the address of a host, as a router's DHCP server may do."""
    with open_lab(name) as lab:
        lab.move(node, address)


@lab_app.command("wipe")
def wipe_command(node: NodeArgument, name: NameOption = None) -> None:
    """Replace the disk of a host by one with a fresh Debian. Name and address stay the same."""
    with open_lab(name) as lab:
        lab.wipe(node)


@lab_app.command("save")
def save_command(layer: LayerArgument, name: NameOption = None) -> None:
    """Save the hosts' disks as a snapshot. The hosts are stopped meanwhile and started again."""
    with open_lab(name) as lab:
        lab.save(layer)


@lab_app.command("drop")
def drop_command(layer: LayerArgument) -> None:
    """Remove a snapshot."""
    with open_lab(None) as lab:
        lab.drop(layer)


@lab_app.command("status")
def status_command(
    name: NameOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the hosts and the snapshots. Exit code 3: the lab is not up."""
    with open_lab(name) as lab:
        status = lab.status()
    if as_json:
        typer.echo(status.model_dump_json(indent=2))
    else:
        _show(status)
    raise typer.Exit(0 if status.up else NOTHING_RUNS)


@contextmanager
def open_lab(name: str | None) -> Iterator[Lab]:
    """Report errors that a user can correct on standard error, with exit code 1."""
    try:
        programs.check()
        yield Lab(name, tell=lambda text: typer.echo(text, err=True))
    except (LabError, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _show(status: LabStatus) -> None:
    if not status.up:
        typer.echo(f"Lab {status.name!r} is not up.")
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for node in status.nodes:
            cable = "" if node.connected else "disconnected"
            table.add_row(node.name, str(node.address), node.state, cable)
        Console().print(table)
    if status.layers:
        typer.echo(f"Snapshots: {', '.join(status.layers)}")


def _become(command: list[str]) -> None:
    """Replace this process by the command, which then receives signals and owns the terminal."""
    os.execvp(command[0], command)
