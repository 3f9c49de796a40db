"""The atomic writer: the old content or the new one, with the requested permissions."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.files import write_atomic, write_atomic_in


def test_content_is_replaced_and_no_draft_stays(tmp_path: Path) -> None:
    """Missing folders are created."""
    file = tmp_path / "a" / "b" / "settings.json"
    for text in ("one", "Zwei ü"):
        write_atomic(file, text)

    assert file.read_text(encoding="utf-8") == "Zwei ü"
    assert [*file.parent.iterdir()] == [file]


def test_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    """Also where a process that was killed has left a draft that everybody may read."""
    file = tmp_path / "key"
    left = tmp_path / ".key.draft"
    left.write_text("old", encoding="utf-8")
    left.chmod(0o644)

    write_atomic(file, "new", mode=0o600)

    assert file.stat().st_mode & 0o777 == 0o600
    assert not left.exists()


def test_failure_keeps_the_old_content(tmp_path: Path) -> None:
    """A folder cannot be replaced by a file."""
    place = tmp_path / "name"
    (place / "inside").mkdir(parents=True)

    with pytest.raises(IsADirectoryError):
        write_atomic(place, "text")

    assert [*tmp_path.iterdir()] == [place]
    assert (place / "inside").is_dir()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """Return the descriptor of an open folder."""
    opened = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


def test_file_in_an_open_folder_is_replaced_with_exact_permissions(
    tmp_path: Path, folder: int
) -> None:
    """The umask of the process does not change the permissions; a link is not followed."""
    outside, file = tmp_path / "outside", tmp_path / "script"
    outside.write_text("old", encoding="utf-8")
    file.symlink_to(outside)
    before = os.umask(0o077)
    try:
        write_atomic_in(folder, "script", b"new", permissions=0o755)
    finally:
        os.umask(before)

    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o755)
    assert not file.is_symlink()
    assert outside.read_text(encoding="utf-8") == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "script"}


def test_content_is_on_the_disk_before_its_name(
    tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure between rename and sync would leave an empty file under the final name."""
    synced: list[tuple[bool, bool]] = []
    sync = os.fsync

    def recorded(file: int) -> None:
        synced.append((file == folder, (tmp_path / "name").exists()))
        sync(file)

    monkeypatch.setattr(os, "fsync", recorded)
    write_atomic_in(folder, "name", b"text", permissions=0o644)

    assert synced == [(False, False), (True, True)]


def test_failure_in_an_open_folder_keeps_the_old_content(tmp_path: Path, folder: int) -> None:
    """A folder cannot be replaced by a file, and no draft stays."""
    (tmp_path / "name").mkdir()

    with pytest.raises(IsADirectoryError):
        write_atomic_in(folder, "name", b"text", permissions=0o644)

    assert [path.name for path in tmp_path.iterdir()] == ["name"]
