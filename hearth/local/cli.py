"""`hearth up`, `down`, `status`, `doctor`, `logs`: one instance on this machine."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import httpx2
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from hearth.local.cluster import Cluster
from hearth.local.commands import cluster_status, detach, logs, schedules
from hearth.local.commands.down import down
from hearth.local.commands.screen import Screen, Terminal
from hearth.local.commands.status import (
    NO_INSTANCE,
    Exit,
    InstanceStatus,
    show_status,
    status_of,
)
from hearth.local.errors import LocalError, ServiceError
from hearth.local.options import Options
from hearth.models.errors import ModelError
from hearth.service.names import PIPECATAPP
from hearth.service.settings import SettingsError
from hearth.service.state import Instance, is_locked, read_instance
from hearth.settings import Engine, Settings

REPORT = "hearth-report.md"
"""The file that `hearth doctor --report` writes into the current folder."""
ENGINES = Path("/opt/hearth")
"""Where a machine of a cluster has the compiled engines."""
StateOption = Annotated[
    Path | None,
    typer.Option("--state-dir", help="State directory of the instance.", show_default=False),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port-base",
        min=1024,
        max=65000,
        help="First port (8000): web page; API +80, experts +81 and +93, speech +91 and +92.",
        show_default=False,
    ),
]
InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        "-i",
        help="Use the cluster of this inventory, as with HEARTH_CLUSTER_URL.",
        show_default=False,
    ),
]
EngineOption = Annotated[
    Engine | None,
    typer.Option("--engine", help="Inference engine (xllamacpp).", show_default=False),
]
SpeechOption = Annotated[
    bool | None,
    typer.Option(
        "--speech/--no-speech",
        help="Start speech-to-text and text-to-speech (--speech).",
        show_default=False,
    ),
]
EmbeddingsOption = Annotated[
    bool | None,
    typer.Option(
        "--embeddings/--no-embeddings",
        help="Start the expert for embeddings, for `hearth knowledge` (--embeddings).",
        show_default=False,
    ),
]


def commands(app: typer.Typer) -> None:
    """Add the commands that run one instance on this machine."""
    app.command("up")(up_command)
    app.command("down")(down_command)
    app.command("status")(status_command)
    app.command("doctor")(doctor_command)
    app.command("logs")(logs_command)


def up_command(
    state_dir: StateOption = None,
    port_base: PortOption = None,
    engine: EngineOption = None,
    speech: SpeechOption = None,
    embeddings: EmbeddingsOption = None,
    *,
    detached: Annotated[
        bool,
        typer.Option(
            "--detach", help="Run in the background; return when all services are healthy."
        ),
    ] = False,
) -> None:
    """Start Hearth on this machine and show its logs. Ctrl-C stops it."""
    with errors_reported():
        options = Options.of(
            Settings.load(),
            state_dir=state_dir,
            port_base=port_base,
            engine=engine,
            speech=speech,
            embeddings=embeddings,
        )
    up, console = _starting().up, Terminal()
    if not detached:
        raise typer.Exit(exit_code_of(lambda: up(options, console)))
    code = detach.detached(
        lambda let_go: exit_code_of(lambda: up(options, console, let_go=let_go)),
        options.state.logs / "hearth.log",
    )
    raise typer.Exit(code)


def down_command(state_dir: StateOption = None) -> None:
    """Stop the instance."""
    with errors_reported():
        state = Options.of(Settings.load(), state_dir=state_dir).state
        stopped = down(state)
    typer.echo("Stopped." if stopped else f"No instance is running on {state.root}.")


def status_command(
    state_dir: StateOption = None,
    inventory: InventoryOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    with_key: Annotated[
        bool, typer.Option("--key", help="Also show the cluster's API key.")
    ] = False,
) -> None:
    """Show the status of services, machines and experts. Exit code: 0 healthy, 1 unhealthy, 3
    not running."""
    if state_dir is not None and inventory is not None:
        raise typer.BadParameter("Use either --state-dir or an inventory, not both.")
    if state_dir is None:
        with errors_reported():
            cluster = Cluster.of(Settings.load(), inventory)
            if cluster is not None:
                raise typer.Exit(_show_cluster(cluster, as_json=as_json, with_key=with_key))
    with errors_reported():
        state = Options.of(Settings.load(), state_dir=state_dir).state
    instance = read_instance(state)
    status = status_of(instance) if instance is not None else NO_INSTANCE
    code = status.exit_code
    if code is Exit.NOT_RUNNING and is_locked(state.lock_file):
        code = Exit.UNHEALTHY
    if as_json:
        typer.echo(status.model_dump_json(indent=2))
    elif instance is not None:
        show_status(status, Console())
        _show_schedules(instance, status)
    elif code is Exit.UNHEALTHY:
        typer.echo(f"The instance on {state.root} is starting or stopping.")
    else:
        typer.echo(f"No instance is running on {state.root}.")
    raise typer.Exit(code)


def _show_schedules(instance: Instance, status: InstanceStatus) -> None:
    """Print the schedules if the agent, which starts them, is healthy."""
    if not any(one.healthy for one in status.services if one.name == PIPECATAPP):
        return
    try:
        rows = schedules.schedules_of(instance)
    except (httpx2.HTTPError, ValidationError, SettingsError) as error:
        typer.echo(f"The schedules cannot be read: {error}")
        return
    if rows:
        Console().print("", schedules.table_of(rows), sep="\n")


def _show_cluster(cluster: Cluster, *, as_json: bool, with_key: bool) -> int:
    status, whole = cluster_status.ask(cluster)
    if as_json:
        typer.echo(json.dumps({"web": cluster.url, **whole}, indent=2, ensure_ascii=False))
    else:
        cluster_status.show(status, cluster.url, Console())
        if with_key:
            typer.echo(f"Key       {cluster.key}")
        elif cluster.secrets_file is not None:
            typer.echo(f"Key       in {cluster.secrets_file}, encrypted; --key shows it")
    return status.exit_code


def doctor_command(
    state_dir: StateOption = None,
    port_base: PortOption = None,
    *,
    with_report: Annotated[
        bool, typer.Option("--report", help=f"Write {REPORT} for a bug report, without secrets.")
    ] = False,
) -> None:
    """Check what Hearth needs on this machine. Exit code 1: a check failed."""
    with errors_reported():
        options = Options.of(Settings.load(), state_dir=state_dir, port_base=port_base)
    doctor = import_module("hearth.local.commands.doctor")  # `hearth status` does not need it
    findings = doctor.examine(options)
    doctor.show_findings(findings, Console())
    if with_report:
        report = import_module("hearth.local.commands.report")
        text = report.report(options.state, findings, ENGINES)
        Path(REPORT).write_text(text, encoding="utf-8")
        typer.echo(f"The report is in {REPORT}. Read it before you send it.")
    raise typer.Exit(any(finding.verdict == "fail" for finding in findings))


def logs_command(
    service: Annotated[
        str | None, typer.Argument(help="Name of a service. Default: all services.")
    ] = None,
    state_dir: StateOption = None,
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of lines.")] = 50,
    following: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep showing new lines.")
    ] = False,
) -> None:
    """Show the services' logs in order of time."""
    with errors_reported():
        state = Options.of(Settings.load(), state_dir=state_dir).state
        files = logs.logs_of(state, service)
    screen = Screen(Terminal())
    screen.ready()
    logs.show_last(files, lines, screen.line)
    if following:
        try:
            logs.follow(files, screen.line)
        except KeyboardInterrupt:
            raise typer.Exit from None


@contextmanager
def errors_reported() -> Iterator[None]:
    """Report the errors that a user can correct in one sentence on standard error; exit code 1."""
    try:
        yield
    except ServiceError as error:
        for line in error.evidence:
            typer.echo(Text.assemble(f"{error.service} | ", Text.from_ansi(line)), err=True)
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    except (LocalError, ModelError, SettingsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def exit_code_of(work: Callable[[], int]) -> int:
    """Run a start, report its errors and return its exit code."""
    try:
        with errors_reported():
            return work()
    except typer.Exit as exit_:
        return exit_.exit_code
    except KeyboardInterrupt:
        typer.echo("Stopped before anything was started.", err=True)
        return int(_starting().INTERRUPTED)


def _starting() -> ModuleType:
    """Import the start of an instance late, because `hearth status` does not need it."""
    return import_module("hearth.local.commands.up")
