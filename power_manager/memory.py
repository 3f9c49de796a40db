"""The state file of the power manager: measured wake times, and holds."""

from pathlib import Path
from typing import Self

import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from hearth.files import write_atomic
from power_manager.holds import StoredHold

log = structlog.get_logger()

Times = dict[str, list[float]]
TIMES = TypeAdapter(Times)
"""The whole file of earlier versions."""


class Memory(BaseModel):
    """The content of the state file."""

    times: Times = {}
    """Machine -> seconds of its last wakes."""
    holds: dict[str, dict[str, StoredHold]] = {}
    """Machine -> holder -> hold."""

    @classmethod
    def read(cls, file: Path | None) -> Self:
        """Return what the file holds; one that cannot be read is logged and replaced later."""
        if file is None or not file.exists():
            return cls()
        try:
            content = file.read_bytes()
            try:
                return cls.model_validate_json(content, extra="forbid")
            except ValidationError:
                return cls(times=TIMES.validate_json(content))
        except (OSError, ValidationError) as error:
            log.warning("state_unreadable", file=str(file), reason=str(error))
            return cls()

    def write(self, file: Path | None) -> None:
        """Replace the file. On a full disk, only what a restart would need is lost."""
        if file is None:
            return
        try:
            write_atomic(file, self.model_dump_json(indent=1))
        except OSError as error:
            log.warning("state_not_stored", file=str(file), reason=str(error))
