"""The tool `check.alignment` on real files."""

from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context

ALIGNMENT = TOOLS["check.alignment"]


@pytest.mark.proves("002-12")
async def test_missing_empty_and_unplanned_files_are_named(tmp_path: Path) -> None:
    """A person sees at a glance what differs from the plan."""
    for name, text in {"a.py": "x", "b.py": "", "p/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    structure = [
        {"path": path, "purpose": "x"} for path in ("a.py", "b.py", "p/__init__.py", "c.py")
    ]

    told = await ALIGNMENT.check(
        Context(workspace=tmp_path),
        {"structure": structure, "changed": ["a.py", "d.py", "t/x.py"], "allowed": ["t/**"]},
    )

    assert told == {
        "aligned": False,
        "missing": [{"path": "c.py", "purpose": "x"}],
        "empty": ["b.py"],
        "outside": ["d.py"],
    }


async def test_path_that_leads_out_of_the_workspace_is_missing(tmp_path: Path) -> None:
    """A plan of a model cannot ask about other files of the machine."""
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("x")

    told = await ALIGNMENT.check(
        Context(workspace=tmp_path / "work"), {"structure": [{"path": "../secret"}]}
    )

    assert [one["path"] for one in told["missing"]] == ["../secret"]


async def test_all_there_is_aligned(tmp_path: Path) -> None:
    """Nothing is asked then."""
    (tmp_path / "a.py").write_text("x")

    told = await ALIGNMENT.check(
        Context(workspace=tmp_path), {"structure": [{"path": "a.py"}], "changed": ["a.py"]}
    )

    assert told["aligned"] is True
