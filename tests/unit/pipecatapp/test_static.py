"""Which files of the page are served, and which never are."""

from pathlib import Path

import pytest

from pipecatapp.api.static import StaticFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "a.js").write_text("1", encoding="utf-8")
    (folder / ".hidden.js").write_text("2", encoding="utf-8")
    (folder / "notes.md").write_text("3", encoding="utf-8")
    (tmp_path / "secret.js").write_text("4", encoding="utf-8")
    (folder / "link.js").symlink_to(tmp_path / "secret.js")
    return folder


def test_file_has_the_type_that_browsers_demand(root: Path) -> None:
    """With nosniff, a module of the wrong type is not run."""
    found = StaticFolder(root).find("parts/a.js")

    assert found is not None
    assert (found.body, found.media_type) == (b"1", "text/javascript; charset=utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "../secret.js", "parts/../../secret.js", "/etc/hostname", "link.js", ".hidden.js",
        "parts", "notes.md", "no.js", "a\0.js", "",
    ],
)  # fmt: skip
def test_what_is_not_of_the_page_is_not_found(root: Path, name: str) -> None:
    """The folder lies beside our code; nothing else of the machine may be read through it."""
    assert StaticFolder(root).find(name) is None


def test_file_that_changed_is_read_again_under_a_new_etag(root: Path) -> None:
    """After an update the browser must not go on with the old page."""
    folder = StaticFolder(root)
    first = folder.find("parts/a.js")
    (root / "parts" / "a.js").write_text("changed", encoding="utf-8")
    second = folder.find("parts/a.js")

    assert first is not None
    assert second is not None
    assert first.etag != second.etag
    assert second.body == b"changed"
