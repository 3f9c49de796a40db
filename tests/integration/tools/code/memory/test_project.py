"""The tool `code.memory` on a real ledger and a real git workspace."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed, Workspaces
from pipecatapp.workspace import GitWorkspaces
from tests.integration.tools.code.memory.conftest import BROKEN, FIXED

MEMORY = TOOLS["code.memory"]


def remembering(call: Context, folder: Path) -> Context:
    """The call with the workspaces of all runs."""
    services = {**call.services, Workspaces: GitWorkspaces(folder / "workspaces")}
    return replace(call, services=services)


async def test_latest_content_and_all_versions_of_a_file_are_found(
    call: Context, tmp_path: Path
) -> None:
    """A file that was removed keeps its history, and each version has its content."""
    assert call.worktree is not None
    folder = call.worktree.folder
    (folder / "p.py").write_text(FIXED)
    (folder / "docs").mkdir()
    (folder / "docs" / "100% (new).md").write_text("Prices\n")
    await call.worktree.commit("Fix")
    (folder / "gone.py").write_text("x")
    await call.worktree.commit("Add")
    (folder / "gone.py").unlink()
    await call.worktree.commit("Remove")
    ctx = remembering(call, tmp_path)

    fixed = await MEMORY.check(ctx, {"path": "p.py"})
    gone = await MEMORY.check(ctx, {"path": "gone.py"})
    unknown = await MEMORY.check(ctx, {"path": "nosuch.py"})
    odd = await MEMORY.check(ctx, {"path": "docs/100% (new).md"})

    assert fixed["content"] == FIXED
    assert [(one["about"], one["text"]) for one in fixed["versions"]] == [
        ("Fix", FIXED), ("Begin", BROKEN),
    ]  # fmt: skip
    assert fixed["files"] == ["docs/100% (new).md", "p.py"]
    assert gone["content"] is None
    assert [(one["about"], one["text"]) for one in gone["versions"]] == [
        ("Remove", None), ("Add", "x"),
    ]  # fmt: skip
    assert (unknown["content"], unknown["versions"]) == (None, [])
    assert odd["content"] == "Prices\n"


async def test_files_are_found_by_name_and_text(call: Context, tmp_path: Path) -> None:
    """The text is no pattern, and its case does not matter."""
    assert call.worktree is not None
    (call.worktree.folder / "notes.txt").write_text("one\nA * (1 + B)\n")
    await call.worktree.commit("Note")
    ctx = remembering(call, tmp_path)

    both = await MEMORY.check(ctx, {"text": "a * (1 + b)"})
    named = await MEMORY.check(ctx, {"text": "a * (1 + b)", "name": "NOTES"})

    assert [(one["path"], one["line"]) for one in both["lines"]] == [("notes.txt", 2), ("p.py", 3)]
    assert named["files"] == ["notes.txt"]
    assert named["lines"] == [{"path": "notes.txt", "line": 2, "text": "A * (1 + B)"}]


async def test_workspace_without_a_repository_is_of_no_project(tmp_path: Path) -> None:
    """Empty workspaces have nothing in common."""
    worktree = await GitWorkspaces(tmp_path).open("r", None)
    ctx = Context(run="r", workspace=worktree.folder, worktree=worktree)

    with pytest.raises(ToolFailed, match="not made from a repository"):
        await MEMORY.check(ctx, {})
