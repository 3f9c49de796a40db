"""Transfer folders between machines: a JSON head, files and links in one tar file.

Packing follows no link, and unpacking writes through none: the content of the folder and the
machine that packed it may be hostile.
"""

import contextlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from pipecatapp.sandbox.tree import Entry, NotPlain, TooLarge, open_plain, parent_of, walk

HEAD: Final = "head.json"
INSIDE: Final = "files/"
LARGEST_HEAD: Final = 32 << 20
DEPTH: Final = 200
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def pack(
    target: BinaryIO, head: Mapping[str, Any], folder: Path, only: Collection[str] | None = None
) -> None:
    """Write `head` and the files of a folder, or `only` these paths; what is neither a folder, a
    file nor a link is left out. Raises `TooLarge` below a great depth.
    """
    with tarfile.open(fileobj=target, mode="w") as archive:
        said = json.dumps(head).encode()
        _add(archive, HEAD, tarfile.REGTYPE, 0o600, io.BytesIO(said), len(said))
        for entry in walk(folder, depth=DEPTH):
            if only is None or entry.path in only:
                _pack_one(archive, folder, entry)


def _pack_one(archive: tarfile.TarFile, folder: Path, entry: Entry) -> None:
    name, mode = f"{INSIDE}{entry.path}", stat.S_IMODE(entry.mode) & 0o777
    try:
        if entry.is_folder:
            _add(archive, name, tarfile.DIRTYPE, mode)
        elif entry.is_link:
            with parent_of(folder, entry.path) as (inside, last):
                _add(archive, name, tarfile.SYMTYPE, mode, link=os.readlink(last, dir_fd=inside))
        elif entry.is_file:
            with os.fdopen(open_plain(folder, entry.path), "rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                _add(archive, name, tarfile.REGTYPE, mode, stream, size)
    except (FileNotFoundError, PermissionError, NotPlain):
        return


def _add(
    archive: tarfile.TarFile,
    name: str,
    kind: bytes,
    mode: int,
    content: Any = None,
    size: int = 0,
    link: str = "",
) -> None:
    about = tarfile.TarInfo(name)
    about.type, about.mode, about.size, about.linkname = kind, mode, size, link
    archive.addfile(about, content)


def unpack(source: BinaryIO, folder: Path, *, size: int, count: int) -> dict[str, Any]:
    """Unpack a bundle into a folder, replacing existing files; returns the head.

    Raises `TooLarge` beyond `size` bytes or `count` entries, `ValueError` for data that `pack` has
    not written.
    """
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:
            head = _head(archive)
            while (about := archive.next()) is not None:
                size, count = size - about.size, count - 1
                if size < 0 or count < 0:
                    raise TooLarge("more came back than the limits allow")
                _unpack_one(archive, about, folder)
    except (tarfile.TarError, NotPlain, UnicodeError) as error:
        raise ValueError(f"not a bundle: {error}") from error
    return head


def _head(archive: tarfile.TarFile) -> dict[str, Any]:
    first = archive.next()
    if first is None or first.name != HEAD or first.size > LARGEST_HEAD:
        raise ValueError("not a bundle: it has no head")
    content = archive.extractfile(first)
    head = json.loads(content.read()) if content is not None else None
    if not isinstance(head, dict):
        raise ValueError("not a bundle: its header is not an object")
    return head


def _unpack_one(archive: tarfile.TarFile, about: tarfile.TarInfo, folder: Path) -> None:
    path = about.name.removeprefix(INSIDE)
    if not about.name.startswith(INSIDE) or not path:
        raise ValueError(f"not a bundle: {about.name!r} lies outside")
    with parent_of(folder, path, make=True) as (inside, name):
        if about.isdir():
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700 | about.mode & 0o777, dir_fd=inside)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=inside)
        if about.issym():
            os.symlink(about.linkname, name, dir_fd=inside)
        elif about.isreg():
            _write(archive, about, name, inside)


def _write(archive: tarfile.TarFile, about: tarfile.TarInfo, name: str, inside: int) -> None:
    content = archive.extractfile(about)
    with os.fdopen(os.open(name, NEW, 0o600, dir_fd=inside), "wb") as stream:
        while content is not None and (data := content.read(1 << 20)):
            stream.write(data)
        os.fchmod(stream.fileno(), about.mode & 0o777)


def drop(folder: Path, paths: Collection[str]) -> None:
    """Remove files and links of a folder. Paths that do not exist, or whose folder was replaced by
    a link, are ignored. Raises `OSError` if a file cannot be removed.
    """
    for path in paths:
        with (
            contextlib.suppress(FileNotFoundError, NotPlain),
            parent_of(folder, path) as (inside, name),
        ):
            os.unlink(name, dir_fd=inside)
