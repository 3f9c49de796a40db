"""Ledgers of older formats, opened by this version."""

import sqlite3
from contextlib import closing
from pathlib import Path

from pipecatapp.records import fixes, notes
from pipecatapp.records.conversations import conversations, may_read
from pipecatapp.workflow import Ledger
from pipecatapp.workflow.ledger import schema

WITHOUT_FIXES = 9
"""The last format without stored fixes."""
WITHOUT_OWNERS = 6
"""The last format in which conversations and notes belonged to nobody."""


def test_conversations_and_notes_from_before_owners_belong_to_the_built_in_key(
    tmp_path: Path,
) -> None:
    """An update must not show what a person said to the keys of other people."""
    path = tmp_path / "ledger.db"
    schema.prepare(path, patience=1, migrations=schema.MIGRATIONS[:WITHOUT_OWNERS])
    with closing(sqlite3.connect(path)) as old:
        old.execute("INSERT INTO conversation VALUES ('diary', 'Dear diary', '2026', '2026')")
        old.execute("INSERT INTO note VALUES ('1', '2026', 'The safe is behind the books.', '[]')")
        old.commit()

    with closing(Ledger(path)) as ledger:
        assert [one.id for one in conversations(ledger.read, 9)[0]] == ["diary"]
        assert [one.id for one in notes.find(ledger, "")] == ["1"]
        assert conversations(ledger.read, 9, "tablet") == ([], 0)
        assert notes.find(ledger, "", owner="tablet") == []
        assert not may_read(ledger.read, "diary", "tablet")


async def test_ledger_from_before_fixes_keeps_its_data_and_stores_fixes(tmp_path: Path) -> None:
    """An update must not lose runs and notes; a fix is stored at once afterwards."""
    path = tmp_path / "ledger.db"
    schema.prepare(path, patience=1, migrations=schema.MIGRATIONS[:WITHOUT_FIXES])
    with closing(sqlite3.connect(path)) as old:
        old.execute(
            "INSERT INTO run (id, workflow, status, caller, started, title, request, plan, inputs)"
            " VALUES (?, 'w', 'done', 'cli', '2026', '', '\"x\"', '{}', '{}')",
            ("01M87MVQ5NTBBEK9VKCF3PY51B",),
        )
        old.execute(
            "INSERT INTO conversation (id, title, created, updated) VALUES ('c', 'C', '', '')"
        )
        old.commit()
    change = fixes.SymbolChange(path="a.py", symbol="f", lines=("-x", "+y"))
    attempt = fixes.Attempt(run="r", path="remember", applied=True, green=True)

    ledger = Ledger(path)
    await ledger.hold(lambda event: None)
    try:
        fix = await fixes.remember(ledger, "E: m [f]", "E: m", "Python", [change], attempt)
        assert fixes.matching(ledger, "E: m [f]", "E: m") == [fix]
        assert [one.id for one in conversations(ledger.read, 9)[0]] == ["c"]
        assert [row["status"] for row in ledger.read.rows("SELECT status FROM run", ())] == ["done"]
    finally:
        await ledger.let_go()
        ledger.close()
