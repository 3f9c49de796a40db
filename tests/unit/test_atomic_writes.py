"""`write_atomic`: the old content or the new one, with the permissions that were asked for."""

from pathlib import Path

import pytest

from hearth.files import write_atomic


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
