"""The tool `file.read` on real files."""

import os
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

READ = TOOLS["file.read"]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "key").write_text("sk-secret", encoding="utf-8")
    return Context(workspace=tmp_path / "work")


def put(ctx: Context, name: str, data: bytes) -> None:
    assert ctx.workspace is not None
    (ctx.workspace / name).write_bytes(data)


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        ("grüß\r\n".encode(), "utf-8", "grüß\r\n"),
        (b"\xef\xbb\xbfx", "utf-8", "x"),
        ("grüß".encode("latin-1"), "latin-1", "grüß"),
        ("grüß".encode("utf-16"), "utf-16", "grüß"),
        (b"\x00\xff", "base64", "AP8="),
        (b"", "utf-8", ""),
    ],
)
async def test_file_is_read_in_its_encoding(
    ctx: Context, data: bytes, encoding: str, text: str
) -> None:
    """Files come from everywhere; what is no text must still be readable somehow."""
    put(ctx, "sub/a", data)

    told = await READ.check(ctx, {"path": "sub/a", "encoding": encoding})

    assert told == {"text": text, "path": "sub/a", "size": len(data), "next": None}


async def test_long_file_is_read_in_parts_that_never_split_a_letter(ctx: Context) -> None:
    """A model has room for a part only, and half a letter is no text."""
    text = "ä€😀" * 50
    put(ctx, "a", text.encode())
    parts: list[str] = []
    offset: int | None = 0

    while offset is not None:
        told = await READ.check(ctx, {"path": "/work/a", "offset": offset, "limit": 20})
        parts.append(told["text"])
        offset = told["next"]

    assert "".join(parts) == text
    assert len(parts) > 20


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../key", "leads out"), ("/etc/passwd", "leads out"), ("out", "leads out"),
        ("far/key", "leads out"), ("sub/../../key", "leads out"), ("/work/../key", "leads out"),
        ("pipe", "not a regular file"), ("sub", "not a regular file"), (".", "workspace itself"),
        ("none", "No such file"), ("a\0b", "not a valid path"), (".git/config", r"\.git folder"),
        ("loop", "cannot be read"), ("bytes", "not utf-8 text"),
    ],
)  # fmt: skip
async def test_what_is_no_file_of_the_workspace_is_refused(
    ctx: Context, tmp_path: Path, path: str, said: str
) -> None:
    """A program or a model may have put a link there; a pipe would hold us for ever."""
    assert ctx.workspace is not None
    (ctx.workspace / "out").symlink_to(tmp_path / "key")
    (ctx.workspace / "far").symlink_to(tmp_path)
    (ctx.workspace / "loop").symlink_to("loop")
    os.mkfifo(ctx.workspace / "pipe")
    put(ctx, "bytes", b"\xff\xfe\xfd")

    with pytest.raises(ToolFailed, match=said):
        await READ.check(ctx, {"path": path})


async def test_link_inside_of_the_workspace_is_followed(ctx: Context) -> None:
    """Projects have such links, and the answer says where the file really is."""
    assert ctx.workspace is not None
    put(ctx, "sub/a", b"x")
    (ctx.workspace / "link").symlink_to("sub")

    told = await READ.check(ctx, {"path": "link/a"})

    assert (told["text"], told["path"]) == ("x", "sub/a")


@pytest.mark.parametrize("given", [{"path": "a"}, {"path": "a", "limit": 1}])
async def test_run_without_a_workspace_has_no_files(given: dict[str, Any]) -> None:
    """The service's own folder is none of a workflow's business."""
    with pytest.raises(ToolFailed, match="no workspace"):
        await READ.check(Context(), given)


async def test_characters_of_two_bytes_survive_being_read_in_parts(ctx: Context) -> None:
    """A part that ends within a character must not lose it, and the rest must not be garbage."""
    text = "Grüße 😀 aus dem Hof, " * 3
    put(ctx, "a", text.encode("utf-16"))
    parts: list[str] = []
    offset: int | None = 0

    while offset is not None:
        given = {"path": "a", "offset": offset, "limit": 17, "encoding": "utf-16"}
        told = await READ.check(ctx, given)
        parts.append(told["text"])
        offset = told["next"]

    assert "".join(parts) == text


async def test_part_that_holds_no_whole_character_is_told(ctx: Context) -> None:
    """Who reads on from where nothing was read would read for ever."""
    put(ctx, "a", "😀😀".encode())

    with pytest.raises(ToolFailed, match="not utf-8 text"):
        await READ.check(ctx, {"path": "a", "limit": 2})
