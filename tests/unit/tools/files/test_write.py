"""The tool `file.write` on real files."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

WRITE = TOOLS["file.write"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "work"


@pytest.fixture
def ctx(root: Path) -> Context:
    return Context(workspace=root)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_file_is_written_with_its_folders(ctx: Context, root: Path) -> None:
    """A model writes `src/app/main.py` before anybody made `src`."""
    told = await WRITE.check(ctx, {"path": "/work/a/b/c.txt", "text": "grüß\r\n"})

    data = "grüß\r\n".encode()
    assert (root / "a/b/c.txt").read_bytes() == data
    assert told == {
        "path": "a/b/c.txt", "size": len(data), "created": True,
        "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
    assert names(root / "a/b") == ["c.txt"]


@pytest.mark.parametrize(
    ("given", "content", "mode"),
    [
        ({"text": "new"}, b"new", 0o755),
        ({"text": "new", "mode": "append"}, b"oldnew", 0o755),
        ({"text": "AP8=", "encoding": "base64", "executable": False}, b"\x00\xff", 0o644),
        ({"text": "ü", "encoding": "latin-1", "executable": True}, b"\xfc", 0o755),
    ],
)
async def test_file_that_is_there_is_changed_as_asked(
    ctx: Context, root: Path, given: dict[str, Any], content: bytes, mode: int
) -> None:
    """A program stays a program when its text is replaced."""
    (root / "a").write_bytes(b"old")
    (root / "a").chmod(0o755)

    told = await WRITE.check(ctx, {"path": "a", **given})

    assert not told["created"]
    assert ((root / "a").read_bytes(), (root / "a").stat().st_mode & 0o777) == (content, mode)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "../outside/x"}, "leads out"), ({"path": "/etc/x"}, "leads out"),
        ({"path": "out/x"}, "leads out"), ({"path": "dangling"}, "leads out"),
        ({"path": "sub"}, "cannot be written"), ({"path": "."}, "workspace itself"),
        ({"path": "file/x"}, "a link or a file"), ({"path": ".GIT/hooks/x"}, r"\.git folder"),
        ({"path": "file", "mode": "create"}, "exists already"),
        ({"path": "pipe", "mode": "append"}, "not a regular file"),
        ({"path": "x", "text": "?", "encoding": "base64"}, "not valid base64"),
        ({"path": "x", "text": "€", "encoding": "latin-1"}, "latin-1 has no"),
        ({"path": "x", "text": "x" * (16 * 1024 * 1024 + 1)}, "a tool writes"),
        ({"path": "n" * 300}, "too long"),
    ],
)  # fmt: skip
async def test_what_cannot_be_written_changes_nothing(
    ctx: Context, root: Path, given: dict[str, Any], said: str
) -> None:
    """Outside of the workspace a model must not write a single byte, nor leave half a file."""
    (root / "sub").mkdir()
    (root / "file").write_bytes(b"old")
    (root / "out").symlink_to(root.parent / "outside")
    (root / "dangling").symlink_to(root.parent / "outside" / "none")
    os.mkfifo(root / "pipe")
    before = names(root)

    with pytest.raises(ToolFailed, match=said):
        await WRITE.check(ctx, {"text": "x", **given})

    assert names(root) == before
    assert (root / "file").read_bytes() == b"old"
    assert names(root.parent / "outside") == []


async def test_link_inside_of_the_workspace_keeps_being_one(ctx: Context, root: Path) -> None:
    """The file that it names is written, and the link stays."""
    (root / "sub").mkdir()
    (root / "link").symlink_to("sub/a")

    told = await WRITE.check(ctx, {"path": "link", "text": "x"})

    assert (told["path"], (root / "sub/a").read_bytes()) == ("sub/a", b"x")
    assert (root / "link").is_symlink()


async def test_run_without_a_workspace_writes_nothing() -> None:
    """The service's own folder is none of a workflow's business."""
    with pytest.raises(ToolFailed, match="no workspace"):
        await WRITE.check(Context(), {"path": "x", "text": "x"})
