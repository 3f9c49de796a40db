"""The tool `items.new`: what no earlier run has handled."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Ledger, ToolFailed

NEW = TOOLS["items.new"]


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    """A ledger that this process holds."""
    held = Ledger(tmp_path / "ledger.db")
    await held.hold(lambda _event: None)
    yield held
    await held.let_go()
    held.close()


async def given(ledger: Ledger, run: str, **more: Any) -> dict[str, Any]:
    context = Context(run=run, path="each[2]/fresh", services={Ledger: ledger})
    return await NEW.check(context, {"memory": "news", **more})


async def test_items_that_another_run_has_taken_are_not_given_again(ledger: Ledger) -> None:
    """Two runs must not tell the same news."""
    first = await given(ledger, "A", items=[{"id": 1}, {"id": 2}, {"id": 1}], by="id")
    second = await given(ledger, "B", items=[{"id": 2, "seen": 5}, {"id": 3}], by="id")

    assert first == {"items": [{"id": 1}, {"id": 2}], "known": 0, "later": 0}
    assert second == {"items": [{"id": 3}], "known": 1, "later": 0}


async def test_resumed_run_is_given_the_same_items(ledger: Ledger) -> None:
    """A power failure right after the items were taken must not lose them."""
    before = await given(ledger, "A", items=[1, 2, 3], limit=2)
    after = await given(ledger, "A", items=[1, 2, 3], limit=2)

    assert before == after == {"items": [1, 2], "known": 0, "later": 1}


async def test_items_beyond_the_limit_are_left_to_the_next_run(ledger: Ledger) -> None:
    """The first run after a year must not take a day."""
    await given(ledger, "A", items=[1, 2, 3], limit=2)

    assert (await given(ledger, "B", items=[1, 2, 3]))["items"] == [3]


async def test_memories_are_apart(ledger: Ledger) -> None:
    """Two workflows read the same feed, each for its own end."""
    await given(ledger, "A", items=[1])

    assert (await given(ledger, "B", items=[1], memory="other"))["items"] == [1]


async def test_item_without_the_field_fails_with_the_item(ledger: Ledger) -> None:
    """A feed whose form has changed must not be taken for one without news."""
    with pytest.raises(ToolFailed, match="no field 'url'"):
        await given(ledger, "A", items=[{"link": "x"}], by="url")
