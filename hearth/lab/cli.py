"""`hearth lab`: Debian hosts on this machine, for testing an inventory."""

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

NOT_RUNNING = 3
"""Exit code of `hearth lab status` if the lab is not up, as of `hearth status`."""

NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", help="Name of the lab, by default that of HEARTH_LAB_NAME.", show_default=False
    ),
]
NodeArgument = Annotated[str, typer.Argument(help="Name of a host, such as node1.")]
SnapshotArgument = Annotated[str, typer.Argument(help="Name of the snapshot.")]

lab_app = typer.Typer(
    help="Test an inventory on Debian hosts on this machine; needs root.", no_args_is_help=True
)


def commands(app: typer.Typer) -> None:
    """Add the command group `lab`."""
    app.add_typer(lab_app, name="lab")


@lab_app.command("up")
def up_command(
    nodes: Annotated[int, typer.Argument(help="Number of hosts.")],
    name: NameOption = None,
    snapshot: Annotated[
        str | None, typer.Option("--from", help="Snapshot from which new hosts start.")
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
    """Start this number of hosts. Hosts that already run are not changed."""
    chosen = [word.rpartition("=") for word in system or []]
    of_all = [name for node, _, name in chosen if not node]
    of_one = {node: name for node, _, name in chosen if node}
    with opened(name) as lab:
        for node in lab.up(
            nodes, snapshot=snapshot, system=of_all[-1] if of_all else DEFAULT, systems_of=of_one
        ):
            typer.echo(f"{node.name}  {node.address}")


@lab_app.command("down")
def down_command(name: NameOption = None) -> None:
    """Remove the lab completely, except snapshots."""
    with opened(name) as lab:
        existed = lab.down()
    typer.echo("Removed." if existed else f"No lab {lab.name!r} is up.")


@lab_app.command("exec", context_settings={"ignore_unknown_options": True})
def exec_command(
    words: Annotated[list[str], typer.Argument(help="The command, after `--`.")],
    name: NameOption = None,
) -> None:
    """Run a command in the lab's network, from which only its hosts can be reached."""
    with opened(name) as lab:
        _exec(lab.command(words))


@lab_app.command("shell")
def shell_command(node: NodeArgument, name: NameOption = None) -> None:
    """Log in to a host as root."""
    with opened(name) as lab:
        _exec(lab.node(node).ssh_command())


@lab_app.command("reboot")
def reboot_command(node: NodeArgument, name: NameOption = None) -> None:
    """Restart a host, or switch it on, and wait until it answers."""
    with opened(name) as lab:
        lab.node(node).reboot()


@lab_app.command("kill")
def kill_command(node: NodeArgument, name: NameOption = None) -> None:
    """Cut the power of a host. Switch it on again with `hearth lab reboot`."""
    with opened(name) as lab:
        lab.node(node).kill()


@lab_app.command("cut", hidden=True)
@lab_app.command("partition")
def partition_command(node: NodeArgument, name: NameOption = None) -> None:
    """Disconnect a host from the network."""
    with opened(name) as lab:
        lab.node(node).partition()


@lab_app.command("heal", hidden=True)
@lab_app.command("reconnect")
def reconnect_command(node: NodeArgument, name: NameOption = None) -> None:
    """Connect a host to the network again."""
    with opened(name) as lab:
        lab.node(node).reconnect()


@lab_app.command("move")
def move_command(
    node: NodeArgument,
    address: Annotated[str, typer.Argument(help="Its new address.")],
    name: NameOption = None,
) -> None:
    """Change the address of a host, as a router can do."""
    with opened(name) as lab:
        lab.move(node, address)


@lab_app.command("wipe")
def wipe_command(node: NodeArgument, name: NameOption = None) -> None:
    """Replace the disk of a host by one with a bare Debian. Its name and address stay."""
    with opened(name) as lab:
        lab.wipe(node)


@lab_app.command("save")
def save_command(snapshot: SnapshotArgument, name: NameOption = None) -> None:
    """Save the disks of all hosts as a snapshot. Running hosts are restarted."""
    with opened(name) as lab:
        lab.save(snapshot)


@lab_app.command("drop")
def drop_command(snapshot: SnapshotArgument) -> None:
    """Remove a snapshot."""
    with opened(None) as lab:
        lab.drop(snapshot)


@lab_app.command("status")
def status_command(
    name: NameOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the hosts and the snapshots. The exit code is 3 if the lab is not up."""
    with opened(name) as lab:
        status = lab.status()
    if as_json:
        typer.echo(status.model_dump_json(indent=2))
    else:
        _show(status)
    raise typer.Exit(0 if status.up else NOT_RUNNING)


@contextmanager
def opened(name: str | None) -> Iterator[Lab]:
    """Yield the lab of that name; on an error that a user can correct, print it and exit with 1."""
    try:
        programs.check()
        yield Lab(name, report=lambda text: typer.echo(text, err=True))
    except (LabError, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _show(status: LabStatus) -> None:
    if not status.up:
        typer.echo(f"No lab {status.name!r} is up.")
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for node in status.nodes:
            network = "" if node.connected else "disconnected"
            table.add_row(node.name, str(node.address), node.state, node.system, network)
        Console().print(table)
    if status.layers:
        typer.echo(f"Snapshots: {', '.join(status.layers)}")


def _exec(command: list[str]) -> None:
    """Replace this process, so that the command gets the terminal and all signals."""
    os.execvp(command[0], command)
