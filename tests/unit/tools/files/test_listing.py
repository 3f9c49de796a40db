"""The tool `file.list` on real files."""

from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

LIST = TOOLS["file.list"]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    (root := tmp_path / "work").mkdir()
    (root / "src").mkdir()
    (root / "src" / "main.py").write_text("pass")
    (root / "a.txt").write_text("")
    (root / "out").symlink_to("/etc")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("")
    return Context(workspace=root)


@pytest.mark.parametrize("path", [".", "/work"])
async def test_list_tells_all_that_is_kept_and_follows_no_link(ctx: Context, path: str) -> None:
    """A model looks around before it reads; /etc is not what a link makes it."""
    told = await LIST.check(ctx, {"path": path})

    assert [(one["path"], one["kind"], one["size"]) for one in told["items"]] == [
        ("a.txt", "file", 0), ("out", "link", 0),
        ("src", "folder", 0), ("src/main.py", "file", 4),
    ]  # fmt: skip
    assert told["cut"] is False


async def test_list_of_a_folder_is_cut_where_asked(ctx: Context) -> None:
    """A folder with a million files must not fill a prompt."""
    inner = await LIST.check(ctx, {"path": "src"})
    short = await LIST.check(ctx, {"limit": 2})

    assert [one["path"] for one in inner["items"]] == ["src/main.py"]
    assert ([one["path"] for one in short["items"]], short["cut"]) == (["a.txt", "out"], True)


@pytest.mark.parametrize("path", ["out", "..", "/etc", "nowhere", "a.txt", ".git"])
async def test_list_of_what_is_no_folder_of_the_workspace_fails(ctx: Context, path: str) -> None:
    """Outside is not to be seen, not even by its names."""
    with pytest.raises(ToolFailed):
        await LIST.check(ctx, {"path": path})
