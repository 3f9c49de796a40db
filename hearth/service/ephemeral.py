"""Temporary folders that are removed when their process ends, for any reason.

A killed process leaves its folders behind; the next process that creates one of the same kind
removes them. A folder is locked while its process lives, so a folder whose lock is free is not in
use any more.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(kind: str, remove: Callable[[Path], object] = shutil.rmtree) -> Iterator[Path]:
    """Create an empty folder for the block, in the system's directory for temporary files.

    Its name begins with `kind`. Folders of this kind whose processes have ended are removed first.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{kind}-*"):
        if (lock := _lock(left)) is not None:
            remove(left)
            os.close(lock)
    folder, lock = _made(kind)
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def _made(kind: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-"))
        if (lock := _lock(folder)) is not None:
            return folder, lock
        # another process removes this folder right now


def _lock(folder: Path) -> int | None:
    """Open and lock the folder; None if it belongs to another user, is in use, or is removed."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.is_dir():
                return lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None
