"""What travels between machines: whoever packed it may be hostile."""

import io
import tarfile
from pathlib import Path

import pytest

from pipecatapp.sandbox import bundle
from pipecatapp.sandbox.tree import TooLarge

ROOM = {"size": 1 << 20, "count": 100}


def packed(*entries: tuple[str, bytes, str | bytes]) -> io.BytesIO:
    """A bundle as a program of one's own could write it: name, kind, content or link."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, kind, content in ((bundle.HEAD, tarfile.REGTYPE, b"{}"), *entries):
            about = tarfile.TarInfo(name)
            about.type, about.mode = kind, 0o6777
            if isinstance(content, str):
                about.linkname, content = content, b""
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    target.seek(0)
    return target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_folder_comes_back_as_it_was_packed(folder: Path, tmp_path: Path) -> None:
    """Modes, links and empty folders are part of what a program left."""
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "sub" / "run").write_bytes(b"#!/bin/sh")
    (folder / "sub" / "run").chmod(0o755)
    (folder / "link").symlink_to("/etc/passwd")
    target, other = io.BytesIO(), tmp_path / "other"
    other.mkdir()

    bundle.pack(target, {"a": 1}, folder)
    target.seek(0)
    head = bundle.unpack(target, other, **ROOM)

    assert head == {"a": 1}
    assert (other / "sub" / "run").stat().st_mode & 0o777 == 0o755
    assert (other / "link").readlink() == Path("/etc/passwd")
    assert (other / "sub" / "empty").is_dir()


@pytest.mark.parametrize("name", ["files/../../key", "/key", "other", "files/link/key"])
def test_nothing_is_written_outside_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    """A result must not be a way to this machine's files."""
    hostile = packed(("files/link", tarfile.SYMTYPE, str(tmp_path)), (name, tarfile.REGTYPE, b"x"))

    with pytest.raises(ValueError, match="not a bundle"):
        bundle.unpack(hostile, folder, **ROOM)

    assert not (tmp_path / "key").exists()


def test_file_replaces_a_link_and_not_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    """A program makes a link here; what comes back later must not follow it."""
    (tmp_path / "key").write_text("secret", encoding="utf-8")
    (folder / "key").symlink_to(tmp_path / "key")

    bundle.unpack(packed(("files/key", tarfile.REGTYPE, b"x")), folder, **ROOM)

    assert (tmp_path / "key").read_text(encoding="utf-8") == "secret"
    assert (folder / "key").read_bytes() == b"x"
    assert (folder / "key").stat().st_mode & 0o7000 == 0


def test_more_than_the_limits_allow_is_refused(folder: Path) -> None:
    """The disk is not the program's."""
    with pytest.raises(TooLarge):
        bundle.unpack(packed(("files/a", tarfile.REGTYPE, b"xxx")), folder, size=2, count=9)
    with pytest.raises(TooLarge):
        bundle.unpack(packed(("files/a", tarfile.DIRTYPE, b"")), folder, size=2, count=0)


@pytest.mark.parametrize("data", [b"", b"no tar", packed().getvalue()[:700]])
def test_what_is_no_bundle_is_told(folder: Path, data: bytes) -> None:
    """A transfer that was cut off must be a reason, not a half result."""
    with pytest.raises(ValueError, match="not a bundle"):
        bundle.unpack(io.BytesIO(data), folder, **ROOM)


def test_what_was_removed_goes_and_what_cannot_go_is_told(folder: Path, tmp_path: Path) -> None:
    """A file that stays in silence would be in the next commit, though the program removed it."""
    for name in ("here", "folder/inside", "other/outside"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (folder / "other").rename(tmp_path / "other")
    (folder / "other").symlink_to(tmp_path / "other")

    bundle.drop(folder, ["here", "never/there", "other/outside"])
    with pytest.raises(OSError, match="folder"):
        bundle.drop(folder, ["folder"])

    assert sorted(path.name for path in folder.iterdir()) == ["folder", "other"]
    assert (tmp_path / "other" / "outside").exists()
