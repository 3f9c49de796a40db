"""All files of an answer, written together or not at all."""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hearth.files import write_atomic_in
from pipecatapp.sandbox.tree import NotPlain, open_plain, parent_of
from pipecatapp.tools.code.edit.content import LARGEST


@dataclass(frozen=True)
class Change:
    """One file: its bytes before (None where it is new) and after (None where it is removed)."""

    path: str
    before: bytes | None
    after: bytes | None
    mode: int = 0o644


def read_file(root: Path, path: str) -> tuple[bytes, int] | None:
    """Bytes and permissions of a regular file; None where there is none. Raises `OSError`."""
    try:
        file = open_plain(root, path)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as stream:
        return stream.read(LARGEST + 1), os.fstat(stream.fileno()).st_mode & 0o777


def write_all(root: Path, changes: Sequence[Change]) -> None:
    """Write every change. Where one fails, those before it are undone and its `OSError` is raised,
    which names the files that could not be put back.

    A process that is killed meanwhile leaves some files changed: the engine brings the workspace
    back to the state before the step when the run goes on.
    """
    done: list[tuple[Change, list[str]]] = []
    try:
        for change in changes:
            done.append((change, _missing_folders(root, change.path)))
            _write(root, change.path, change.after, change.mode)
    except OSError as error:
        kept = [one.path for one, folders in reversed(done) if not _undone(root, one, folders)]
        if kept:
            reason = f"{error.strerror or error}; still changed: {', '.join(kept)}"
            raise OSError(error.errno, reason) from error
        raise


def _missing_folders(root: Path, path: str) -> list[str]:
    """The folders of a path that do not exist yet, the innermost first."""
    folders = PurePosixPath(path).parents[:-1]
    return [str(folder) for folder in folders if not os.path.lexists(root / folder)]


def _undone(root: Path, change: Change, folders: Sequence[str]) -> bool:
    """Put a file back and remove the `folders` made for it; False if the file stays changed."""
    try:
        _write(root, change.path, change.before, change.mode)
    except (FileNotFoundError, NotPlain):
        return change.before is None  # Its folder could not be made, so there is no file.
    except OSError:
        return False
    for folder in folders:
        with contextlib.suppress(OSError), parent_of(root, folder, make=False) as (outer, name):
            os.rmdir(name, dir_fd=outer)
    return True


def _write(root: Path, path: str, data: bytes | None, mode: int) -> None:
    with parent_of(root, path, make=data is not None) as (folder, name):
        if data is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        else:
            write_atomic_in(folder, name, data, permissions=mode)
