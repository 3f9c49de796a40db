"""The tool `runs.recent` on runs of a real engine."""

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Ledger
from tests.unit.tools.autonomy.test_digest import BAD, GOOD
from tests.unit.workflow.conftest import OpenEngine, open_engine

__all__ = ["open_engine"]
RECENT = TOOLS["runs.recent"]


async def test_runs_that_have_ended_are_listed_without_those_of_the_workflow_that_asks(
    open_engine: OpenEngine,
) -> None:
    """A digest that is about digests grows by itself."""
    engine = await open_engine(GOOD, BAD, GOOD.replace("good", "asking"))
    runs: list[str] = []
    for workflow in ("good", "bad", "asking"):
        runs.append(await engine.start(workflow, {"text": "Write a letter"}))
        await engine.wait(runs[-1])
    ctx = Context(run=runs[2], services={Ledger: engine.ledger})

    told = await RECENT.check(ctx, {})
    newest = await RECENT.check(ctx, {"limit": 1})

    good, bad = told["runs"]
    assert (good["id"], good["status"], good["result"]) == (
        runs[0], "done", "{'said': 'WRITE A LETTER'}"
    )  # fmt: skip
    assert (bad["id"], bad["error"], bad["title"]) == (
        runs[1], "a: Write a letter", "Write a letter"
    )  # fmt: skip
    assert [run["id"] for run in newest["runs"]] == [runs[1]]
