"""A call with a ledger."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pipecatapp.workflow import Context, Ledger

MODEL = "smollm2"


@pytest.fixture
async def call(tmp_path: Path) -> AsyncIterator[Context]:
    """A call of a run on a ledger of its own."""
    ledger = Ledger(tmp_path / "ledger.db")
    await ledger.hold(lambda event: None)
    try:
        yield Context(run="r", path="count", services={Ledger: ledger})
    finally:
        await ledger.let_go()
        ledger.close()
