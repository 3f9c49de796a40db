"""Temporary folders that end with their process, however that ends.

A process that is killed leaves its folders behind; the next one that makes one of the same kind
removes them. A folder is locked for as long as its process lives, so a lock that can be had is the
sign that nobody needs the folder any more.
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
    """An empty folder for the block, where the system has temporary ones.

    `kind` begins its name. Those of that kind whose processes are gone are removed before.
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
        # Somebody who sweeps has come before us, and removes it.


def _lock(folder: Path) -> int | None:
    """The open folder, locked; None when it is another's, in use, or gone."""
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
