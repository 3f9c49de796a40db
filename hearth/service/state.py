"""The state directory of an instance, and the record of the instance that is running on it."""

import fcntl
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

STATE_VERSION = 1
INSTANCE_VERSION = 1


@dataclass(frozen=True)
class StateDir:
    """The paths in a state directory, which need not exist."""

    root: Path

    @property
    def version_file(self) -> Path:
        """The file with `STATE_VERSION` as a decimal number."""
        return self.root / "version"

    @property
    def key_file(self) -> Path:
        """The key for users and their programs; mode 0600."""
        return self.root / "key"

    @property
    def service_key_file(self) -> Path:
        """The key that services use for each other; mode 0600."""
        return self.root / "service_key"

    @property
    def key_store(self) -> Path:
        """The SQLite file of the issued keys and their usage."""
        return self.root / "keys.db"

    @property
    def settings_file(self) -> Path:
        """Settings of the user for the services of this instance: one `NAME=VALUE` per line."""
        return self.root / "settings.env"

    @property
    def ledger(self) -> Path:
        """The SQLite file of runs, conversations and notes."""
        return self.root / "ledger.db"

    @property
    def knowledge(self) -> Path:
        """The SQLite file of the indexed documents."""
        return self.root / "knowledge.db"

    @property
    def models(self) -> Path:
        """Model files, one folder for each model."""
        return self.root / "models"

    @property
    def logs(self) -> Path:
        """One log file per service."""
        return self.root / "logs"

    @property
    def instance_file(self) -> Path:
        """The running services: JSON with addresses, ports and process ids; absent if nothing
        runs."""
        return self.root / "instance.json"

    @property
    def gateway_instances(self) -> Path:
        """The servers behind the gateway after a change of the model; absent before the first
        change."""
        return self.root / "gateway-instances.json"

    @property
    def lock_file(self) -> Path:
        """Locked by the running `hearth up`."""
        return self.root / "lock"


class RunningService(BaseModel):
    """One service of a running instance."""

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    port: int
    url: str
    since: datetime


class Instance(BaseModel):
    """The running instance of a state directory: the content of its `instance.json`."""

    model_config = ConfigDict(frozen=True)

    version: int = INSTANCE_VERSION
    pid: int
    started: datetime
    web: str
    api: str
    key_file: Path
    services: list[RunningService]
    control: Path | None = None
    """The socket for the requests of `hearth.service.control`."""


def ensure_state_dir(state: StateDir) -> None:
    """Create a missing state directory, private to its owner; an existing one is unchanged."""
    if not state.root.is_dir():
        state.root.mkdir(mode=0o700, parents=True)
        state.version_file.write_text(f"{STATE_VERSION}\n", encoding="ascii")


def read_instance(state: StateDir) -> Instance | None:
    """Return the running instance of this state directory.

    None without the file, if it was written by another version, or if the process that wrote it has
    ended. A crash leaves the file behind, so the lock is checked; without a lock file, the process
    id.
    """
    try:
        instance = Instance.model_validate_json(state.instance_file.read_bytes())
    except (OSError, ValidationError):
        return None
    if instance.version != INSTANCE_VERSION or not process_runs(instance.pid):
        return None
    if state.lock_file.exists() and not is_locked(state.lock_file):
        return None
    return instance


def process_runs(pid: int) -> bool:
    """Return whether a process with this id is running; a zombie is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_locked(path: Path) -> bool:
    """Return whether another open file holds the exclusive `flock` on `path`."""
    try:
        probe = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(probe)
    return False
