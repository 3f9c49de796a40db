"""The lock that permits one instance for each state directory."""

import fcntl
import os
import time
from types import TracebackType
from typing import Self

from hearth.service.state import StateDir

PATIENCE_SECONDS = 0.5
"""Longer than a reader holds the lock to test it."""


class LockHeld(Exception):
    """Another process holds the lock; `lock_holder` returns it."""


class InstanceLock:
    """A context manager that holds the exclusive `flock` on the state directory's lock file.

    The file contains the process id, for users and for `hearth down`, and is removed at the end.
    The kernel releases the lock when the process ends for any reason. A forked child shares it: the
    lock is free when the last of the processes has closed it.
    """

    def __init__(self, state: StateDir) -> None:
        self.path = state.lock_file
        self._file = -1

    def __enter__(self) -> Self:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._take():
            if time.monotonic() > deadline:
                raise LockHeld(str(self.path))
            time.sleep(0.02)
        self.name_holder()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Removed while still held: a waiting process sees that the file was replaced.
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Release this process's share of the lock without removing the file."""
        os.close(self._file)
        self._file = -1

    def name_holder(self) -> None:
        """Write the id of this process into the file; a forked child calls it for itself."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _take(self) -> bool:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), self.path.stat()):
                self._file = file
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(file)
        return False


def lock_holder(state: StateDir) -> int | None:
    """Return the process id in the lock file; None without a file or a valid number."""
    try:
        return int(state.lock_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
