"""The tool `search.files` on real files."""

import os
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.search.files import FileIndexes
from pipecatapp.tools.search.index import Known
from pipecatapp.workflow import Context, ToolFailed

BREAD = "# Bread\n\nTake flour and water.\nLet it rest.\nBake it in the oven for one hour.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with some files."""
    root = tmp_path / "work"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "bread.md").write_text(BREAD)
    (root / "docs" / "tea.md").write_text("Green tea needs water of 80 degrees.\n" * 3)
    (root / "long.txt").write_text("\n".join(f"line {n} about nothing" for n in range(1, 200)))
    (root / "code.py").write_text("def file_index(path):\n    return open(path)  # größe\n")
    (root / "picture.bin").write_bytes(b"flour\0water")
    (root / ".gitignore").write_text("secret.txt\n")
    (root / "secret.txt").write_text("flour and water\n")
    (root / ".hidden").write_text("flour and water\n")
    (root / "ja.txt").write_text("今日は天気がいいです。\n")
    return root


def context(folder: Path) -> Context:
    """A run in the workspace, with indexes on the disk."""
    return Context(workspace=folder, services={FileIndexes: FileIndexes(folder.parent / "indexes")})


async def search(folder: Path, query: str, **more: Any) -> dict[str, Any]:
    """Call the tool."""
    return await TOOLS["search.files"].check(context(folder), {"query": query, **more})


@pytest.mark.proves("003-36")
async def test_passage_is_found_with_its_lines(folder: Path) -> None:
    """A reader, or a model, opens the file at that line; hidden and binary files are left out."""
    found = await search(folder, "flour water")

    first = found["matches"][0]
    assert (first["path"], first["line"]) == ("docs/bread.md", 2)
    assert first["excerpt"] == "2: \n3: Take flour and water.\n4: Let it rest."
    paths = {one["path"] for one in found["matches"]}
    assert paths == {"docs/bread.md", "docs/tea.md"}


async def test_line_far_down_is_shown(folder: Path) -> None:
    """With its number in the file."""
    (match,) = (await search(folder, "line 150", limit=1))["matches"]
    assert "150: line 150 about nothing" in match["excerpt"]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("file_index", "code.py"),
        ("GROSSE größe", "code.py"),
        ("grosse GRÖßE", "code.py"),
        ("degr*", "docs/tea.md"),
        ('"one hour"', "docs/bread.md"),
        ("bread.md", "docs/bread.md"),
        ("天気", "ja.txt"),
    ],
)
async def test_words_phrases_and_beginnings_are_found(folder: Path, query: str, path: str) -> None:
    """Upper case, accents, names with `_`, and scripts without spaces."""
    assert (await search(folder, query))["matches"][0]["path"] == path


@pytest.mark.parametrize(
    "query",
    [
        *('"flour', 'a"b', "flour AND", "NOT water", "flour OR OR", "NEAR(a b, 5)", "text : flour"),
        *("(flour", "-flour", "^flour", "fl*ur*", "a*b\"c'd;--", "'; DROP TABLE files; --"),
        *("x" * 900, "{flour}", "flour\0water", "\ud7ff flour", "path:code", "*flour", '"" flour'),
    ],
)
async def test_no_text_is_a_wrong_query(folder: Path, query: str) -> None:
    """People and models write what they like; operators and quotes are text."""
    assert (await search(folder, query))["files"] > 0


async def test_query_without_a_word_is_refused(folder: Path) -> None:
    """It would find everything or nothing."""
    with pytest.raises(ToolFailed, match="no word"):
        await search(folder, '"" + *')


async def test_globs_choose_files(folder: Path) -> None:
    """And the other files stay in the index."""
    found = await search(folder, "water", globs=["docs/t*.md"])
    assert {one["path"] for one in found["matches"]} == {"docs/tea.md"}
    assert (await search(folder, "flour"))["matches"]


async def test_limits_are_kept_and_counted(folder: Path) -> None:
    """A long file does not hide the others."""
    found = await search(folder, "line about nothing", limit=2)
    assert (len(found["matches"]), found["left_out"] > 0) == (2, True)
    assert len((await search(folder, "nothing", limit=50))["matches"]) == 3
    assert len((await search(folder, "nothing", budget=100))["matches"]) == 1


async def test_changes_are_seen(folder: Path) -> None:
    """New, changed and deleted files, also when size and time stay the same."""
    assert not (await search(folder, "zebra"))["matches"]
    (folder / "new.txt").write_text("zebra")
    assert (await search(folder, "zebra"))["matches"]
    before = (folder / "new.txt").stat()
    (folder / "new.txt").write_text("koala")
    os.utime(folder / "new.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not (await search(folder, "zebra"))["matches"]
    assert (await search(folder, "koala"))["matches"]
    (folder / "new.txt").unlink()
    assert not (await search(folder, "koala"))["matches"]


def test_only_changed_files_are_read(folder: Path) -> None:
    """A large project is searched often."""
    index = FileIndexes(folder.parent / "indexes").of(folder)
    known = [Known("docs/bread.md", "1"), Known("docs/tea.md", "1")]
    with index.opened() as opened:
        assert opened.update(known) == 2
    with index.opened() as opened:
        assert opened.update(known) == 0
        assert opened.update([Known("docs/bread.md", "2"), known[1]]) == 1


def test_index_of_a_folder_that_is_gone_is_removed(folder: Path, tmp_path: Path) -> None:
    """Each run has a workspace; their indexes must not fill the disk."""
    indexes = FileIndexes(tmp_path / "indexes")
    for root in (folder, tmp_path / "other"):
        root.mkdir(exist_ok=True)
        with indexes.of(root).opened():
            pass
    (tmp_path / "other").rmdir()
    (tmp_path / "third").mkdir()
    with indexes.of(tmp_path / "third").opened():
        pass
    assert len(list((tmp_path / "indexes").glob("*.db"))) == 2


async def test_link_out_of_the_workspace_is_not_read(folder: Path, tmp_path: Path) -> None:
    """A program of the run could make one."""
    (tmp_path / "outside.txt").write_text("platypus")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    assert not (await search(folder, "platypus"))["matches"]
