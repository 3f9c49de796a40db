"""Write files so that a crash or a power failure leaves the old content or the new one."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex


def write_atomic(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Replace the content of `path`, completely or not at all. A text is written in UTF-8.

    `mode` is the permissions of the file, from which the umask of the process is subtracted.

    The content is written to a hidden file in the same folder, which is then renamed. Both the file
    and the folder are synced: otherwise a power failure could undo the rename (POSIX `fsync`).
    Missing folders are created. Two writers of one path must not run at the same time. Raises
    `OSError`; the old content is then unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.unlink(missing_ok=True)  # that of a process that was killed, with its permissions
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(opened, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        move_atomic(draft, path)
    except OSError:
        with suppress(FileNotFoundError):
            draft.unlink()
        raise


def write_atomic_in(folder: int, name: str, content: bytes, *, permissions: int) -> None:
    """Replace the file `name` in an open folder, completely or not at all.

    For folders in which other programs work: no link is followed, and several writers may write the
    same name at the same time. `permissions` are exact: no umask is subtracted. Both the file and
    the folder are synced. Raises `OSError`; the old content is then unchanged.
    """
    draft = f".{token_hex(8)}.part"
    opened = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
        dir_fd=folder,
    )  # fmt: skip
    try:
        with os.fdopen(opened, "wb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), permissions)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    os.fsync(folder)


def move_atomic(draft: Path, path: Path) -> Path:
    """Replace `path` by a complete file of the same file system, durably; returns `path`.

    For content that does not fit in memory; `write_atomic` is for the rest. Raises `OSError`.
    """
    opened = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
    draft.replace(path)
    sync_folder(path.parent)
    return path


def sync_folder(folder: Path) -> None:
    """Make created, renamed and removed names of a folder durable. Raises `OSError`."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
