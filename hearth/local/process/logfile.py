"""The log files of an instance: a line a line, each with its moment, rotated by size."""

import os
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 5_000_000
KEPT = 3
"""Number of older files; `name.log.1` is the newest of them."""


class LogFile:
    """`LogFile(path).write(line)` appends `2026-05-09T14:03:11.123456Z line`.

    Timestamps have microseconds, because services may stop within the same millisecond, and `hearth
    logs` merges their files by timestamp only.

    A file that cannot be written (a full disk) never stops a service: the line is dropped, and
    `failure` has the reason until writing works again.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path, self.max_bytes = path, max_bytes
        self.failure: OSError | None = None
        self._stream: BinaryIO | None = None
        self._size = 0

    def write(self, line: str) -> None:
        moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        data = f"{moment} {line}\n".encode(errors="replace")
        try:
            if self._stream is None or self._size + len(data) > self.max_bytes:
                self._open(len(data))
            assert self._stream is not None
            self._stream.write(data)
        except OSError as error:
            self.failure = error
            self.close()
            return
        self._size += len(data)
        self.failure = None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _open(self, coming: int) -> None:
        self.close()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size + coming > self.max_bytes:
            self._rotate()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._stream = os.fdopen(file, "ab", buffering=0)
        self._size = os.fstat(file).st_size

    def _rotate(self) -> None:
        files = [self.path, *(Path(f"{self.path}.{number}") for number in range(1, KEPT + 1))]
        for younger, older in reversed(list(pairwise(files))):
            if younger.exists():
                younger.replace(older)
