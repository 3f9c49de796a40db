"""The description of one service process on this machine: data without behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service as a child process that serves HTTP on loopback."""

    name: str
    command: tuple[str, ...]
    port: int
    environment: Mapping[str, str]
    """All of its environment, not an addition to ours."""
    start_seconds: float = 60
    """How long it may take until it is healthy for the first time."""
    stop_seconds: float = 15
    """How long it may take to finish what is under way after SIGTERM."""
    ready_path: str | None = None
    """Path that must answer 200, like `/health`, before the service counts as started."""
    key_file: Path | None = None
    """File of the key for `ready_path`."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"
