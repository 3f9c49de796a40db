"""The tools `note.save` and `note.find` on a real ledger."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Ledger, ToolFailed

SAVE, FIND = TOOLS["note.save"], TOOLS["note.find"]


@asynccontextmanager
async def notes_in(path: Path) -> AsyncIterator[Context]:
    ledger = Ledger(path)
    await ledger.hold(lambda event: None)
    try:
        yield Context(services={Ledger: ledger})
    finally:
        await ledger.let_go()
        ledger.close()


async def test_note_is_found_by_its_words_after_the_service_was_started_anew(
    tmp_path: Path,
) -> None:
    """A memory that forgets at the next start is none."""
    async with notes_in(tmp_path / "ledger.db") as ctx:
        saved = await SAVE.check(ctx, {"text": "The key lies under the mat.", "tags": ["house"]})
        await SAVE.check(ctx, {"text": "Milk is out."})

    async with notes_in(tmp_path / "ledger.db") as ctx:
        by_word = await FIND.check(ctx, {"query": "where is the key"})
        by_tag = await FIND.check(ctx, {"query": "house", "limit": 1})

    assert by_word["notes"][0] == saved
    assert by_tag["notes"] == [saved]
    assert (saved["text"], saved["tags"]) == ("The key lies under the mat.", ["house"])


async def test_find_without_words_gives_the_latest_notes(tmp_path: Path) -> None:
    """ "What did I ask you to remember?" names no word of it."""
    async with notes_in(tmp_path / "ledger.db") as ctx:
        for number in range(3):
            await SAVE.check(ctx, {"text": f"Note {number}"})
        found = await FIND.check(ctx, {"limit": 2})

    assert [note["text"] for note in found["notes"]] == ["Note 2", "Note 1"]


@pytest.mark.parametrize("query", ['"', "' OR 1=1 --", "a AND", "*", "note:(", "NEAR("])
async def test_find_takes_any_text_as_words(tmp_path: Path, query: str) -> None:
    """A model writes what it likes; the index must not take it for its own language."""
    async with notes_in(tmp_path / "ledger.db") as ctx:
        await SAVE.check(ctx, {"text": "x"})

        assert isinstance((await FIND.check(ctx, {"query": query}))["notes"], list)


@pytest.mark.parametrize("text", ["", "x" * 4001])
async def test_save_refuses_what_is_no_note(tmp_path: Path, text: str) -> None:
    """Nothing is kept that could not be shown in a prompt again."""
    async with notes_in(tmp_path / "ledger.db") as ctx:
        with pytest.raises(ToolFailed, match="text"):
            await SAVE.check(ctx, {"text": text})

        assert (await FIND.check(ctx, {}))["notes"] == []


def test_save_is_never_repeated_by_a_resumed_run() -> None:
    """The engine repeats by effect; `external` is the one that happens at most once."""
    assert SAVE.effect == "external"
