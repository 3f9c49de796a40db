"""A file with the servers behind the gateway, which can change while the gateway runs."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from moe_gateway.settings import InstanceSettings

log = structlog.get_logger()

LOOK_SECONDS: Final = 0.5
"""Seconds between two checks of the file."""

LIST: TypeAdapter[tuple[InstanceSettings, ...]] = TypeAdapter(tuple[InstanceSettings, ...])

Stamp = tuple[int, int, int]


class InstancesFile:
    """A JSON list as that of the setting `instances`; the file may appear later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: Stamp | None = None

    def changed(self) -> tuple[InstanceSettings, ...] | None:
        """Return the list if the file has changed since the last call, otherwise None.

        An invalid file is logged once, and the previous list stays in use.
        """
        try:
            found = self.path.stat()
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp == self._stamp:
                return None
            self._stamp = stamp
            return LIST.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("instances_file_unusable", path=str(self.path), reason=error.strerror)
            return None
        except ValidationError as error:
            # Values are omitted: they may be keys in the wrong field.
            faults = [(one["loc"], one["msg"]) for one in error.errors(include_input=False)]
            log.error("instances_file_unusable", path=str(self.path), faults=faults)
            return None

    async def follow(self, take: Callable[[Sequence[InstanceSettings]], None]) -> None:
        """Call `take` with each new list, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if (instances := self.changed()) is not None:
                log.info("instances_changed", number=len(instances))
                take(instances)
