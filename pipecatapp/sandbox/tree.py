"""List a folder whose content may be hostile; links are never followed.

Every step uses an open folder and a single name, so that a name cannot be replaced by another
file between two steps.
"""

import contextlib
import errno
import os
import stat
import subprocess
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooLarge(Exception):
    """A folder exceeds the limit of entries or depth; the message names it."""


class NotPlain(OSError):
    """A path leads through a link, or to something that is not a regular file."""


@dataclass(frozen=True)
class Entry:
    """Something in a folder. `state` changes whenever its content or its mode may have."""

    path: str
    mode: int
    size: int
    state: tuple[int, ...]

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


def walk(folder: Path, *, depth: int, skip: Container[str] = ()) -> Iterator[Entry]:
    """Yield all entries below a folder, parents first; names in `skip` (in any case) are omitted.

    Raises `TooLarge` below `depth` folders. Entries that are removed meanwhile are omitted.
    """
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield from _walk(root, "", depth, skip)
    finally:
        os.close(root)


def _walk(folder: int, prefix: str, depth: int, skip: Container[str]) -> Iterator[Entry]:
    if depth < 0:
        raise TooLarge(f"folders are nested too deeply at {prefix[:80]!r}")
    for name in sorted(os.listdir(folder)):
        if name.casefold() in skip:
            continue
        try:
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        entry = _entry(prefix + name, facts)
        yield entry
        if entry.is_folder and (inner := _open_folder(folder, name)) is not None:
            try:
                yield from _walk(inner, f"{entry.path}/", depth - 1, skip)
            finally:
                os.close(inner)


def _entry(path: str, facts: os.stat_result) -> Entry:
    size = max(facts.st_size, facts.st_blocks * 512)
    state = (facts.st_mode, facts.st_size, facts.st_ino, facts.st_ctime_ns)
    return Entry(path, facts.st_mode, size, state)


def _open_folder(folder: int, name: str) -> int | None:
    """Open a folder inside another; its owner may have shut it, and we are its owner."""
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 (the handle, not a path)
        finally:
            os.close(handle)
        return os.open(name, FOLDER, dir_fd=folder)
    except OSError:
        return None


def parts_of(relative: str) -> tuple[str, ...]:
    """The names of a path inside a folder; raises `NotPlain` for one that leaves it."""
    path = PurePosixPath(relative)
    if path.is_absolute() or ".." in path.parts or "\0" in relative:
        raise NotPlain(f"{relative!r} does not lie in the folder")
    return path.parts


@contextlib.contextmanager
def parent_of(root: Path, relative: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that holds `relative`, and the last name; folders are made on request.

    Raises `NotPlain` where the way leads through a link, `OSError` where it does not exist.
    """
    *folders, name = parts_of(relative) or ("",)
    if not name:
        raise NotPlain("a file is needed, and this is the folder itself")
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o755, dir_fd=current)
            inner = _step_into(current, folder, relative)
            os.close(current)
            current = inner
        yield current, name
    finally:
        os.close(current)


def _step_into(current: int, folder: str, relative: str) -> int:
    try:
        return os.open(folder, FOLDER, dir_fd=current)
    except NotADirectoryError:
        raise NotPlain(f"{relative!r} leads through {folder!r}, a link or a file") from None


def open_plain(root: Path, relative: str) -> int:
    """Open a regular file below `root` for reading, following no link on the way.

    Raises `NotPlain` for links, pipes and the like, `OSError` where nothing is.
    """
    with parent_of(root, relative) as (folder, name):
        try:
            file = os.open(name, FILE, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotPlain(f"{relative!r} is a link") from None
            raise
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise NotPlain(f"{relative!r} is not a regular file")
        return file


def empty(folder: Path) -> None:
    """Remove everything in a folder, whatever its depth and its modes; the folder stays.

    GNU rm and chmod go by open folders, too, and know no limit of depth.
    """
    inside = [str(path) for path in folder.iterdir()]
    for start in range(0, len(inside), 500):
        some = inside[start : start + 500]
        subprocess.run(["rm", "-rf", "--one-file-system", "--", *some], check=False,
                       capture_output=True)  # fmt: skip
    if left := [name for name in inside if os.path.lexists(name)]:
        for name in left:
            subprocess.run(["chmod", "-R", "u+rwX", "--", name], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", "--one-file-system", "--", *left], check=True,
                       capture_output=True)  # fmt: skip


def remove(folder: Path) -> None:
    """Remove a folder with everything in it."""
    if folder.is_dir() and not folder.is_symlink():
        empty(folder)
        folder.rmdir()


def allow(root: Path, relative: str, mode: int) -> None:
    """Change the permissions of a file below `root`; a link on the way, or at its end, fails."""
    with parent_of(root, relative) as (folder, name):
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise NotPlain(f"{relative!r} is not a regular file")
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) & 0o777)  # noqa: PTH101
        finally:
            os.close(handle)
