"""The tool `file.delete` on real files."""

from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

DELETE = TOOLS["file.delete"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a folder that nobody may touch."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("x")
    (root := tmp_path / "work").mkdir()
    (root / "sub").mkdir()
    (root / "sub" / "a").write_text("a")
    (root / "a").write_text("a")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "sub" / "deep").symlink_to(tmp_path / "outside" / "x")
    return root


def names(root: Path) -> set[str]:
    """All that is in the workspace."""
    return {str(one.relative_to(root)) for one in root.rglob("*")}


@pytest.mark.parametrize(
    ("path", "folder"), [("a", False), ("sub", True), ("/work/sub/a", False), ("link", False)]
)
async def test_file_folder_or_link_is_gone_and_nothing_else(
    root: Path, path: str, *, folder: bool
) -> None:
    """A link is deleted, never what it leads to."""
    told = await DELETE.check(Context(workspace=root), {"path": path})

    place = path.removeprefix("/work/")
    assert told == {"path": place, "folder": folder}
    all_of_them = {"a", "link", "sub", "sub/a", "sub/deep"}
    gone = {name for name in all_of_them if name == place or name.startswith(f"{place}/")}
    assert names(root) == all_of_them - gone
    assert (root.parent / "outside" / "x").read_text() == "x"


@pytest.mark.parametrize(
    "path", [".", "..", "/", "/work", "../outside/x", "link/x", "nowhere", ".git", "a/x", "/etc/x"]
)
async def test_delete_of_what_is_not_in_the_workspace_fails(root: Path, path: str) -> None:
    """Neither the workspace itself nor anything around it can be taken away."""
    with pytest.raises(ToolFailed):
        await DELETE.check(Context(workspace=root), {"path": path})
    assert (root.parent / "outside" / "x").exists()
    assert len(names(root)) == 5
