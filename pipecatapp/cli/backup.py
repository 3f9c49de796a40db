"""`hearth backup` and `hearth restore`: the state of an instance or a cluster, as one file."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, BinaryIO, Final

import httpx2
import typer

from hearth.files import move_atomic
from hearth.local.cluster import Cluster
from hearth.local.errors import LocalError
from hearth.local.state.lock import InstanceLock, LockHeld
from hearth.service.settings import read_key
from hearth.service.state import StateDir, ensure_state_dir, read_instance
from hearth.settings import Settings
from pipecatapp.cli.exit_codes import CommandFailed, exit_codes
from pipecatapp.cli.options import StateOption

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup file.")]
InventoryOption = Annotated[
    Path | None,
    typer.Option("--inventory", "-i", help="Use the cluster of this inventory."),
]
BACK_SECONDS: Final = 120.0
"""How long a service may take to be back with what was restored."""


def back_up(
    file: FileArgument, state_dir: StateOption = None, inventory: InventoryOption = None
) -> None:
    """Write ledger, notes, documents and keys to one file. Runs continue meanwhile."""
    with exit_codes(), told():
        live = _live(state_dir, inventory)
        if live is None:
            state = _state(state_dir)
            if not state.root.is_dir():
                raise CommandFailed(f"There is no state in {state.root}.")
            _archives().write_archive(state, file)
        else:
            _download(live, file)
    size = file.stat().st_size / 1e3
    typer.echo(f"The backup is in {file} ({size:,.0f} kB). Keep it safe: it has all conversations.")


def restore(
    file: FileArgument, state_dir: StateOption = None, inventory: InventoryOption = None
) -> None:
    """Restore a backup. The current state is moved to `backups/` first.

    A running instance is restarted and keeps its built-in keys. If no instance is running, these
    keys are restored, too. Existing issued keys do not change and revoked ones stay revoked;
    issued keys that exist only in the backup are added.
    """
    with exit_codes(), told():
        if not file.is_file():
            raise CommandFailed(f"There is no file {file}.")
        live = _live(state_dir, inventory)
        created = _restore_here(_state(state_dir), file) if live is None else _upload(live, file)
    typer.echo(f"Restored the state of {created}.")


def _live(state_dir: Path | None, inventory: Path | None) -> Cluster | None:
    """The cluster that is meant, or the instance that runs here, reached in the same way."""
    settings = Settings.load()
    if state_dir is None and (cluster := Cluster.of(settings, inventory)) is not None:
        return cluster
    instance = read_instance(_state(state_dir))
    return None if instance is None else Cluster(instance.web, read_key(instance.key_file))


def _state(state_dir: Path | None) -> StateDir:
    return StateDir(state_dir or Settings.load().state_dir)


def _restore_here(state: StateDir, file: Path) -> str:
    ensure_state_dir(state)
    try:
        with InstanceLock(state):
            manifest = _archives().stage(state, file, keys=True)
            _archives().apply_staged(state)
    except LockHeld as error:
        raise CommandFailed(f"The instance on {state.root} is starting or stopping.") from error
    return str(manifest.created.isoformat())


def _download(live: Cluster, file: Path) -> None:
    draft = file.with_name(f".{file.name}.part")
    try:
        with live.client() as client, client.stream("GET", "/api/backup") as answer:
            _demand(answer, live)
            draft.touch(mode=0o600)
            with draft.open("wb") as stream:
                for data in answer.iter_bytes():
                    stream.write(data)
        move_atomic(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _upload(live: Cluster, file: Path) -> str:
    with live.client() as client:
        with file.open("rb") as stream:
            answer = client.post("/api/restore", content=_pieces(stream))
        _demand(answer, live)
        wanted = answer.json()
        ends = time.monotonic() + BACK_SECONDS
        while time.monotonic() < ends:
            time.sleep(0.5)
            try:
                found = client.get("/api/restore")
            except httpx2.TransportError:
                continue
            if found.is_success and found.json() == wanted:
                return str(wanted["created"])
    raise CommandFailed(
        f"{live.url} accepted the backup but has not restarted in {BACK_SECONDS:g} s; see its log."
    )


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while data := stream.read(1 << 20):
        yield data


def _demand(answer: httpx2.Response, live: Cluster) -> None:
    """Raise `CommandFailed` with the service's own words."""
    if not answer.is_success:
        answer.read()
        try:
            words = answer.json()["error"]["message"]
        except (ValueError, KeyError, TypeError):
            words = f"HTTP {answer.status_code}"
        raise CommandFailed(f"{live.url}: {words}")


@contextmanager
def told() -> Iterator[None]:
    """Report errors that a user can correct as `CommandFailed`."""
    try:
        yield
    except (LocalError, httpx2.TransportError, OSError) as error:
        raise CommandFailed(str(error) or type(error).__name__) from error
    except _archives().ArchiveError as error:
        raise CommandFailed(str(error)) from error


def _archives() -> ModuleType:
    """Import the module of archives when it is needed: it brings the engine along."""
    return import_module("pipecatapp.application.backup")
