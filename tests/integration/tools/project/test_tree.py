"""The tool `project.tree`: the files of a workspace as a tree."""

import os
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed


async def tree(root: Path, **inputs: Any) -> Any:
    return await TOOLS["project.tree"].check(Context(workspace=root), inputs)


def write(root: Path, *names: str, data: bytes = b"x\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.mark.proves("002-29")
async def test_files_are_in_natural_order_below_their_folders(tmp_path: Path) -> None:
    """People number files; 10 comes after 2."""
    write(
        tmp_path, "part10.md", "Part2.md", "part2/b.py", "part2/a10.py", "part2/a9.py", "1a", "a1"
    )

    seen = await tree(tmp_path)

    assert seen["text"] == ("1a\na1\npart2/\n  a9.py\n  a10.py\n  b.py\nPart2.md\npart10.md\n")
    assert (seen["shown"], seen["cut"]) == (8, False)


@pytest.mark.proves("002-29")
async def test_what_is_not_source_is_left_out(tmp_path: Path) -> None:
    """Installed, generated and binary files would hide the project's own; links may lead out."""
    (root := tmp_path / "work").mkdir()
    write(root, "a.py", "keep.log", "sub/b.py", "sub/own.tmp", "sub/kept.tmp")
    write(root, ".hidden/x.py", ".env", "node_modules/x.js", "build/out.py", "z.log", "a.tmp")
    write(root, "logo.png", data=b"\x89PNG\0\0")
    write(root, ".gitignore", data=b"build/\n*.log\n!keep.log\n*.tmp\n")
    write(root, "sub/.gitignore", data=b"!kept.tmp\n")
    write(tmp_path, "secret.py")
    (root / "link.py").symlink_to(tmp_path / "secret.py")

    assert (await tree(root))["text"] == "a.py\nkeep.log\nsub/\n  b.py\n  kept.tmp\n"


async def test_limits_keep_the_upper_levels_and_mark_what_is_cut(tmp_path: Path) -> None:
    """A folder of a thousand files must not hide the others."""
    write(tmp_path, *(f"a/{number}.py" for number in range(1000)), "b/c/d.py", "z.py")

    few = await tree(tmp_path, limit=5)
    flat = await tree(tmp_path, depth=2)
    exact = await tree(tmp_path, limit=1005)

    assert few["text"] == "a/ …\n  0.py\n  1.py\nb/ …\nz.py\n"
    assert (few["shown"], few["cut"]) == (5, True)
    assert flat["text"].startswith("a/ …\n  0.py\n")
    assert flat["shown"] == 500
    assert (exact["shown"], exact["cut"]) == (1005, False)
    assert (await tree(tmp_path / "b", depth=1))["text"] == "c/ …\n"


async def test_hostile_names_and_pipes_are_handled(tmp_path: Path) -> None:
    """A program may name a file with a line break, or leave a pipe that git would wait for."""
    write(tmp_path, "a\nb.py", "sub/c.py")

    assert (await tree(tmp_path))["text"] == "'a\\nb.py'\nsub/\n  c.py\n"

    os.mkfifo(tmp_path / "sub" / ".gitignore")
    with pytest.raises(ToolFailed, match=r"'sub/.gitignore' is not a regular file"):
        await tree(tmp_path)


async def test_empty_workspace_gives_an_empty_tree(tmp_path: Path) -> None:
    """A new program begins without a file."""
    assert await tree(tmp_path) == {"text": "", "shown": 0, "cut": False}
