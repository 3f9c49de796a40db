"""`hearth logs`: show the log lines of the services, merged by time, and follow new ones."""

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from heapq import merge
from operator import itemgetter
from pathlib import Path

from hearth.local.errors import NoLog
from hearth.local.process.logfile import KEPT
from hearth.service.state import StateDir

POLL_SECONDS = 0.2
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")

Show = Callable[[str, str], None]
"""Receives the service's name and a line."""


def logs_of(state: StateDir, service: str | None) -> list[Path]:
    """Return the newest log file of one service or of all; raises `NoLog` for an unknown name.

    `llama-expert` selects every expert, such as `llama-expert-smollm2`.
    """
    files = {path.stem: path for path in sorted(state.logs.glob("*.log"))}
    if service is None:
        return list(files.values())
    selected = [
        path for name, path in files.items() if name == service or name.startswith(f"{service}-")
    ]
    if not selected:
        raise NoLog(service, known=sorted(files))
    return selected


def show_last(files: Sequence[Path], count: int, show: Show) -> None:
    """Show the last `count` lines of all these logs, in the order in which they were written."""
    together = merge(*(_lines_of(file) for file in files), key=itemgetter(0))
    for _moment, service, text in deque(together, maxlen=count):
        show(service, text)


def follow(files: Sequence[Path], show: Show) -> None:
    """Show new lines of these logs until interrupted, also after a rotation."""
    with ExitStack() as opened:
        tails = [opened.enter_context(closing(Tail(file))) for file in files]
        while True:
            for _moment, service, text in new_lines(tails):
                show(service, text)
            time.sleep(POLL_SECONDS)


def new_lines(tails: Sequence["Tail"]) -> list[tuple[str, str, str]]:
    """Return the lines added since the last call as (timestamp, service, text).

    Sorted by timestamp only: lines of one millisecond, as of a traceback, keep their order.
    """
    return sorted((line for tail in tails for line in tail.read()), key=itemgetter(0))


class Tail:
    """A reader of the lines that are added to a log file after its creation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stream = path.open("rb")
        self._stream.seek(0, 2)
        self._rest = b""

    def read(self) -> Iterator[tuple[str, str, str]]:
        """Yield the new complete lines as (timestamp, service, text)."""
        yield from self._new_lines()
        if self._was_rotated():
            yield from self._new_lines()
            self._stream.close()
            self._stream = self.path.open("rb")
            yield from self._new_lines()

    def close(self) -> None:
        self._stream.close()

    def _new_lines(self) -> Iterator[tuple[str, str, str]]:
        *lines, self._rest = (self._rest + self._stream.read()).split(b"\n")
        for line in lines:
            yield _parse(self.path, line)

    def _was_rotated(self) -> bool:
        try:
            return not self.path.samefile(f"/proc/self/fd/{self._stream.fileno()}")
        except FileNotFoundError:
            return False


def _lines_of(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield all lines of a log, those of its rotated files first."""
    for path in (*(Path(f"{file}.{number}") for number in range(KEPT, 0, -1)), file):
        if path.exists():
            with path.open("rb") as stream:
                for line in stream:
                    yield _parse(file, line.rstrip(b"\n"))


def _parse(log: Path, line: bytes) -> tuple[str, str, str]:
    """Split a line of `LogFile`; a line without a timestamp gets the time of the file."""
    moment, _, text = line.decode(errors="replace").partition(" ")
    if MOMENT.fullmatch(moment):
        return moment, log.stem, text
    written = datetime.fromtimestamp(log.stat().st_mtime, UTC).isoformat()
    return written, log.stem, line.decode(errors="replace")
