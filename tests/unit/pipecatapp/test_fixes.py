"""The store of fixes on a real ledger, and where a fix applies in another project."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipecatapp.records import fixes
from pipecatapp.records.fixes import Attempt, Fix, FixEntry, SymbolChange
from pipecatapp.tools.code.context.candidates import Sources
from pipecatapp.tools.code.memory.changes import NotKept, symbol_changes
from pipecatapp.tools.code.memory.places import applied
from pipecatapp.workflow import Context, Ledger

DIFF = '''diff --git a/p.py b/p.py
--- a/p.py
+++ b/p.py
@@ -1,3 +1,3 @@
 def total(a, b):
     """Add."""
-    return a * (1 + b)
+    return a * (1 - b)
'''
FIXED = 'def total(a, b):\n    """Add."""\n    return a * (1 - b)\n'
BROKEN = "import os\n\n\n" + FIXED.replace("1 - b", "1 + b")
CHANGE = SymbolChange(
    path="p.py", symbol="total", lines=("-    return a * (1 + b)", "+    return a * (1 - b)")
)
SIGNATURE, PATTERN = "AssertionError: <n> [test_total]", "AssertionError: <n>"
WORKED = Attempt(run="r", path="first", applied=True, green=True)


@asynccontextmanager
async def ledger_in(folder: Path) -> AsyncIterator[Ledger]:
    ledger = Ledger(folder / "ledger.db")
    await ledger.hold(lambda event: None)
    try:
        yield ledger
    finally:
        await ledger.let_go()
        ledger.close()


async def stored(ledger: Ledger, *, owner: str = "") -> Fix:
    return await fixes.remember(ledger, SIGNATURE, PATTERN, "Python", [CHANGE], WORKED, owner=owner)


async def test_call_that_is_made_again_after_a_crash_counts_once(tmp_path: Path) -> None:
    """A resumed run repeats a call that was cut off; a failed reuse lowers the rate."""
    async with ledger_in(tmp_path) as ledger:
        first = await stored(ledger)
        again = await stored(ledger)
        failed = Attempt(run="r", path="second", applied=True, green=False)
        lower = await fixes.count(ledger, first.id, failed)

    assert (again.asked, again.applied, again.green) == (1, 1, 1)
    assert lower is not None
    assert (lower.asked, lower.applied, lower.green) == (2, 2, 1)
    assert lower.rate < again.rate


async def test_fixes_with_the_signature_come_before_those_with_the_pattern(tmp_path: Path) -> None:
    """The message alone fits more errors than the message and the function."""
    async with ledger_in(tmp_path) as ledger:
        exact = await stored(ledger)
        other = "AssertionError: <n> [test_other]"
        call = WORKED.model_copy(update={"path": "second"})
        alike = await fixes.remember(ledger, other, PATTERN, "Python", [CHANGE], call)

        assert [one.id for one in fixes.matching(ledger, SIGNATURE, PATTERN)] == [
            exact.id, alike.id,
        ]  # fmt: skip
        assert fixes.matching(ledger, "KeyError: 'a'", "KeyError: 'a'") == []


async def test_fix_of_one_key_is_not_read_or_removed_by_another(tmp_path: Path) -> None:
    """A fix holds source code of a person's project."""
    async with ledger_in(tmp_path) as ledger:
        fix = await stored(ledger, owner="laptop")

        assert fixes.find(ledger, owner="tablet") == []
        assert fixes.matching(ledger, SIGNATURE, PATTERN, owner="tablet") == []
        assert await fixes.forget(ledger, [fix.id], owner="tablet") == fix.id
        assert [one.id for one in fixes.find(ledger, owner="laptop")] == [fix.id]
        assert await fixes.forget(ledger, [fix.id], owner="laptop") is None
        assert fixes.find(ledger) == []


async def test_imported_twice_is_there_once(tmp_path: Path) -> None:
    """Importing a file again must not count its successes again."""
    async with ledger_in(tmp_path) as ledger:
        fix = await stored(ledger)
        entry = FixEntry.model_validate(fix.model_dump(include=set(FixEntry.model_fields)))
        await fixes.forget(ledger, [fix.id])

        assert await fixes.take_in(ledger, [entry, entry]) == 1
        assert await fixes.take_in(ledger, [entry]) == 0
        assert [one.green for one in fixes.find(ledger)] == [1]


async def test_fixes_not_used_for_the_longest_time_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger does not grow without end."""
    monkeypatch.setattr(fixes, "MOST", 2)
    async with ledger_in(tmp_path) as ledger:
        for number, at in enumerate("abc"):
            monkeypatch.setattr(fixes, "now", lambda n=number: f"2026-01-0{n + 1}T00:00:00.000Z")
            attempt = WORKED.model_copy(update={"path": at})
            await fixes.remember(ledger, at, at, "Python", [CHANGE], attempt)

        assert [one.signature for one in fixes.find(ledger)] == ["c", "b"]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"path": "../p.py"}, "relative path"),
        ({"lines": (" kept",)}, "must remove or add"),
        ({"lines": ("+new",)}, "not added"),
        ({"lines": ("no sign",)}, "match pattern"),
        ({"lines": ("-a\n-b",)}, "match pattern"),
        ({"more": 1}, "Extra inputs"),
    ],
)
def test_change_that_cannot_be_used_is_refused(wrong: dict[str, object], reason: str) -> None:
    """Imported files are written by anyone."""
    with pytest.raises(ValidationError, match=reason):
        SymbolChange.model_validate(CHANGE.model_dump() | wrong)


async def test_diff_of_one_project_applies_to_the_same_function_of_another(
    tmp_path: Path,
) -> None:
    """The file and the lines around the function may differ."""
    (tmp_path / "p.py").write_text(FIXED)
    changes = await symbol_changes(Sources(Context(), tmp_path), DIFF)
    (other := tmp_path / "other").mkdir()
    (other / "q.py").write_text(BROKEN)
    (other / "r.py").write_text("def average(a):\n    return a\n")
    async with ledger_in(tmp_path) as ledger:
        fix = await fixes.remember(ledger, SIGNATURE, PATTERN, "Python", changes, WORKED)

    diff = await applied(Sources(Context(), other), other, ["q.py", "r.py"], fix, [])

    assert [(one.path, one.symbol) for one in changes] == [("p.py", "total")]
    assert diff is not None
    assert diff.splitlines()[-2:] == ["-    return a * (1 + b)", "+    return a * (1 - b)"]
    (other / "r.py").write_text(BROKEN)
    assert await applied(Sources(Context(), other), other, ["q.py", "r.py"], fix, []) is None


async def test_new_file_is_not_stored(tmp_path: Path) -> None:
    """It has no place that could be found again."""
    (tmp_path / "p.py").write_text("a = 1\n")
    diff = "diff --git a/p.py b/p.py\n--- /dev/null\n+++ b/p.py\n@@ -0,0 +1 @@\n+a = 1\n"

    with pytest.raises(NotKept, match="existing files"):
        await symbol_changes(Sources(Context(), tmp_path), diff)
