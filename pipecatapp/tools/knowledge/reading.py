"""Find the files of a source, and read each one as text."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Any, Final

from pipecatapp.sandbox.tree import NotPlain, open_plain
from pipecatapp.tools.documents.job import (
    BUBBLEWRAP,
    OPENPYXL,
    PANDOC,
    PDFIUM,
    PDFPLUMBER,
    Job,
    finished,
)
from pipecatapp.tools.documents.read import Parsed
from pipecatapp.tools.knowledge.passages import Passage, passages
from pipecatapp.workflow import Context, ToolFailed

MIB: Final = 1 << 20
LARGEST: Final = 32 * MIB
"""Bytes of a file."""
MOST_FILES: Final = 50_000
MOST_CHARACTERS: Final = 20_000_000
SAMPLE: Final = 8192
DOCUMENTS: Final = frozenset(
    ("pdf", "docx", "docm", "pptx", "xlsx", "xlsm", "odt", "epub", "html", "htm", "xhtml", "rtf")
)
"""Endings of files that a parser in the sandbox reads."""
MEDIA: Final = frozenset(
    (
        "png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "tif", "tiff", "heic", "svg",
        "mp3", "ogg", "opus", "flac", "wav", "m4a", "mp4", "mkv", "webm", "mov", "avi",
        "zip", "gz", "xz", "bz2", "zst", "7z", "rar", "tar", "iso", "deb", "rpm", "whl", "jar",
        "so", "o", "a", "exe", "dll", "bin", "pyc", "class", "gguf", "db", "sqlite", "ttf", "woff2",
    )
)  # fmt: skip
"""Endings of files without text; they are left out without reading them."""
SKIPPED_FOLDERS: Final = frozenset(("node_modules", "__pycache__"))


class SourceGone(Exception):
    """A folder or file of a source cannot be read; its passages stay until it is removed."""


class Unreadable(Exception):
    """A file that cannot be indexed; the others are. The message is a sentence."""


@dataclass(frozen=True)
class Found:
    """A file of a source. `path` is its name in the source, `state` changes with its content."""

    root: Path
    inner: str
    path: str
    size: int
    state: str


def files_of(paths: list[str]) -> list[Found]:
    """Return the files of a source, without hidden files, links and files without text.

    Raises `SourceGone` if a folder or file is missing, or if there are too many files.
    """
    found: list[Found] = []
    for given in paths:
        prefix = f"{Path(given).name}/" if len(paths) > 1 else ""
        for one in _below(Path(given), prefix):
            found.append(one)
            if len(found) > MOST_FILES:
                raise SourceGone(
                    f"There are more than {MOST_FILES} files. Add smaller folders as sources."
                )
    return found


def _below(path: Path, prefix: str) -> Iterator[Found]:
    if path.is_file():
        yield from _entry(path.parent, path.name, path.name)
        return
    if not path.is_dir():
        raise SourceGone(f"{path} does not exist, or is not a file or folder.")

    def refuse(error: OSError) -> None:
        # A folder that is unreadable for a moment must not look like a folder without files.
        raise SourceGone(f"{error.filename} cannot be read: {error.strerror}.") from error

    for folder, folders, names in os.walk(path, onerror=refuse, followlinks=False):
        folders[:] = sorted(one for one in folders if one[:1] != "." and one not in SKIPPED_FOLDERS)
        for name in sorted(names):
            if not name.startswith(".") and _ending(name) not in MEDIA:
                inner = str((Path(folder) / name).relative_to(path))
                yield from _entry(path, inner, prefix + inner)


def _entry(root: Path, inner: str, path: str) -> Iterator[Found]:
    try:
        facts = (root / inner).lstat()
    except FileNotFoundError:
        return
    if not S_ISREG(facts.st_mode):
        return
    state = f"{facts.st_size}-{facts.st_mtime_ns}-{facts.st_ino}"
    yield Found(root, inner, path.encode("utf-8", "replace").decode(), facts.st_size, state)


def content(file: Found) -> bytes:
    """Return the content of a file. Raises `Unreadable`."""
    if file.size > LARGEST:
        raise Unreadable(
            f"It has {file.size // MIB} MiB, and at most {LARGEST // MIB} MiB are read."
            " Split it into parts."
        )
    try:
        with os.fdopen(open_plain(file.root, file.inner), "rb") as stream:
            data = stream.read(LARGEST + 1)
    except NotPlain as error:
        raise Unreadable(f"It {error}.") from error
    except OSError as error:
        raise Unreadable(f"It cannot be read: {error.strerror}.") from error
    if not data.strip():
        raise Unreadable("It is empty.")
    return data


class Reader:
    """Reads documents as passages; `services` has the sandbox for parsers."""

    def __init__(self, services: Mapping[Any, object]) -> None:
        self._context = Context(services=services)

    async def passages(self, file: Found, data: bytes) -> list[Passage]:
        """Return the passages of a file. Raises `Unreadable`."""
        if _ending(file.inner) not in DOCUMENTS and not data.startswith(b"%PDF-"):
            return passages(_text(data))
        lacks = [one.missing() for one in (BUBBLEWRAP, PANDOC, PDFIUM, PDFPLUMBER, OPENPYXL)]
        if missing := next(filter(None, lacks), ""):
            raise Unreadable(missing)
        job = Job(
            "read",
            {"file": "input", "name": PurePosixPath(file.inner).name, "page": 1,
             "characters": MOST_CHARACTERS},
            failure="It cannot be read",
            files={"input": file.inner},
        )  # fmt: skip
        try:
            async with finished(self._context, file.root, job, Parsed) as done:
                parsed = done.result
        except ToolFailed as error:
            raise Unreadable(str(error)) from error
        pages = parsed.pages is not None
        found = [
            one
            for part in parsed.segments
            for one in passages(part.text, page=part.page if pages else 0)
        ]
        if not found:
            raise Unreadable(" ".join(["It has no text.", *parsed.notes]))
        return found


def _text(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:SAMPLE]:
        raise Unreadable("It is neither text nor a document that is known.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""
