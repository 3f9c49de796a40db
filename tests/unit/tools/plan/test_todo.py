"""The tool `plan.todo` on a real ledger; the tests of the coordinator add items to a run."""

from pathlib import Path

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Ledger

TODO = TOOLS["plan.todo"]


async def test_run_without_items_has_nothing_to_take_up(tmp_path: Path) -> None:
    """The count never falls, so no item is done twice."""
    ledger = Ledger(tmp_path / "ledger.db")
    await ledger.hold(lambda event: None)
    ctx = Context(run="r1", services={Ledger: ledger})

    assert await TODO.check(ctx, {}) == {"steps": [], "taken": 0}
    assert await TODO.check(ctx, {"taken": 2}) == {"steps": [], "taken": 2}

    await ledger.let_go()
    ledger.close()
