"""The tool `context.merge` on a real memory of fixes."""

from pathlib import Path
from typing import Any

from pipecatapp.records import fixes
from pipecatapp.records.fixes import FixEntry
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Ledger
from tests.unit.tools.memory.test_note import notes_in

MERGE = TOOLS["context.merge"]


def entry(symbol: str, error: str = "KeyError: <s>", **more: Any) -> FixEntry:
    change = {"path": "a.py", "symbol": symbol, "lines": [f"-{symbol} = 1", f"+{symbol} = 2"]}
    return FixEntry.model_validate(
        {
            "signature": f"{error} [{symbol}]", "pattern": error, "language": "Python",
            "edit": [change], "at": "2026-01-01T00:00:00Z",
            "asked": 1, "applied": 1, "green": 1, **more,
        }
    )  # fmt: skip


async def test_fixes_of_similar_failures_are_one_context_the_most_frequent_first(
    tmp_path: Path,
) -> None:
    """A single one is none, and neither are fixes that mostly failed or are in another language."""
    async with notes_in(tmp_path / "ledger.db") as ctx:
        stored = [
            *(entry(symbol, "TypeError") for symbol in "ab"),
            *(entry(symbol) for symbol in "cde"),
            entry("f", "ValueError"),
            *(entry(symbol, "OSError", asked=9, applied=9) for symbol in "gh"),
            *(entry(symbol, "panic", language="Rust") for symbol in "ij"),
        ]
        await fixes.take_in(ctx.service(Ledger), stored)
        told = await MERGE.check(ctx, {"languages": ["python"]})
        one = await MERGE.check(ctx, {"limit": 1, "at_least": 3})

    first, second = told["contexts"]
    assert first["about"] == "3 failures with KeyError: <s> in Python"
    assert "c in a.py, d in a.py, e in a.py" in first["text"]
    assert "-e = 1\n+e = 2" in first["text"]
    assert len(first["fixes"]) == 3
    assert second["id"] == "TypeError"
    assert one["contexts"] == [first]
