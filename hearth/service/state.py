"""Where one instance keeps what must survive: its state directory."""

from dataclasses import dataclass
from pathlib import Path

STATE_VERSION = 1


@dataclass(frozen=True)
class StateDir:
    """The layout of a state directory. Nothing is created by naming it."""

    root: Path

    @property
    def version_file(self) -> Path:
        """Holds `STATE_VERSION` as a decimal number."""
        return self.root / "version"

    @property
    def key_file(self) -> Path:
        """The key that people and programs use; mode 0600."""
        return self.root / "key"

    @property
    def service_key_file(self) -> Path:
        """The key that our services use among themselves; mode 0600."""
        return self.root / "service_key"

    @property
    def ledger(self) -> Path:
        """The SQLite file of runs, conversations and notes."""
        return self.root / "ledger.db"

    @property
    def models(self) -> Path:
        """Model files, a folder a model."""
        return self.root / "models"

    @property
    def logs(self) -> Path:
        """One log file per service."""
        return self.root / "logs"

    @property
    def instance_file(self) -> Path:
        """What runs now: JSON with addresses, ports and process ids; absent when nothing runs."""
        return self.root / "instance.json"

    @property
    def lock_file(self) -> Path:
        """Locked by the running `hearth up`."""
        return self.root / "lock"
