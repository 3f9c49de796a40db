"""Watches the folders of triggers, and gives each new file to a run."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

from pipecatapp.application.errors import KNOWN
from pipecatapp.application.runs import RunService
from pipecatapp.application.triggers.definition import Folder, TriggerSettings
from pipecatapp.application.triggers.service import TooManyDeliveries, TriggerService

PERIOD: Final = 2.0
"""Seconds between two looks. A file is taken when two looks find it the same: it is complete."""
MOST: Final = 10_000
"""Files of one folder that are looked at."""
CHUNK: Final = 1 << 20


class FileState(NamedTuple):
    """One state of a file."""

    name: str
    size: int
    modified: int
    """Nanoseconds since 1970."""

    @property
    def item(self) -> str:
        """Its name in the memory of the trigger."""
        return f"{self.name}:{self.size}:{self.modified}"


class FolderWatch:
    """Looks into the folders of all triggers until cancelled.

    Looking is polling: it works on network shares, too, which report no changes of others.
    """

    def __init__(self, triggers: TriggerService, runs: RunService) -> None:
        self._triggers, self._runs = triggers, runs
        self._seen: dict[str, set[FileState]] = {}
        self._tried: dict[str, set[FileState]] = {}

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(PERIOD)

    async def look(self) -> None:
        """Look once into each folder; start runs of the files that are as they were before."""
        for trigger in self._triggers.all():
            settings = trigger.settings
            if settings is None or settings.folder is None or settings.paused:
                self._seen.pop(trigger.id, None)
                continue
            try:
                found = await asyncio.to_thread(files_of, settings.folder)
            except OSError as error:
                self._triggers.failed(
                    trigger.id, f"{settings.folder.path} cannot be read: {error.strerror}."
                )
                continue
            await self._take(trigger.id, settings, settings.folder.path, found)

    async def _take(
        self, id: str, settings: TriggerSettings, folder: Path, found: set[FileState]
    ) -> None:
        complete = found & self._seen.get(id, set())
        tried = self._tried.setdefault(id, set())
        tried &= found
        self._seen[id] = found
        for file in sorted(complete - tried, key=lambda file: file.modified):
            try:
                await self._start(id, settings, folder, file)
            except TooManyDeliveries:
                return  # the others at a later look
            except OSError as error:
                self._triggers.failed(id, f"{folder / file.name}: {error.strerror}.")
            except KNOWN as error:
                self._triggers.failed(id, f"{file.name}: {error}")
            tried.add(file)

    async def _start(
        self, id: str, settings: TriggerSettings, folder: Path, file: FileState
    ) -> None:
        if self._triggers.handled(id, file.item) is not None:
            return
        upload = await self._runs.files.upload(_content(folder / file.name))
        names = {"file": {"name": file.name, "size": file.size, "folder": str(folder)}}
        await self._triggers.start(id, settings, names, file.item, {file.name: upload})


def files_of(folder: Folder) -> set[FileState]:
    """Return the regular files of a folder that fit its pattern; raises `OSError`.

    Hidden files and links are left out: programs write to hidden files first, and a link could
    lead to any file of the machine.
    """
    return set(_files(folder))


def _files(folder: Folder) -> Iterator[FileState]:
    since = folder.since.timestamp() if folder.since else 0.0
    with os.scandir(folder.path) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST:
                return
            if entry.name.startswith(".") or not fnmatch(entry.name, folder.pattern):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed since the folder was listed
            # The time of the last change of the entry itself: a file that is moved here keeps the
            # time of its content.
            if stat.S_ISREG(found.st_mode) and found.st_ctime >= since:
                yield FileState(entry.name, found.st_size, found.st_mtime_ns)


async def _content(path: Path) -> AsyncIterator[bytes]:
    opened = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        while data := await asyncio.to_thread(file.read, CHUNK):
            yield data
