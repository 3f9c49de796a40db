"""The tool `code.recall` on a real ledger and a real workspace; `code.edit` applies its answer."""

from pipecatapp.records import fixes
from pipecatapp.records.fixes import Attempt, SymbolChange
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Ledger
from tests.integration.tools.code.memory.conftest import BROKEN, FIXED, results

RECALL, EDIT = TOOLS["code.recall"], TOOLS["code.edit"]
LINES = ("-    return a * (1 + b)", "+    return a * (1 - b)")
ERROR = results("failed").error


async def store(ctx: Context, *, symbol: str = "total", failures: int = 0) -> None:
    """Store a fix that worked once and then failed."""
    assert ERROR is not None
    change = SymbolChange(path="elsewhere.py", symbol=symbol, lines=LINES)
    ledger, worked = ctx.service(Ledger), Attempt(run="r", path="a", applied=True, green=True)
    pattern = ERROR.signature.partition(" [")[0]
    fix = await fixes.remember(ledger, ERROR.signature, pattern, "Python", [change], worked)
    for number in range(failures):
        failed = Attempt(run="r", path=str(number), applied=True, green=False)
        await fixes.count(ledger, fix.id, failed)


async def test_stored_fix_is_a_change_of_this_project(call: Context) -> None:
    """The file has another name here."""
    await store(call)
    assert call.workspace is not None

    result = await RECALL.check(call, {"error": ERROR})
    [fix] = result["fixes"]
    edited = await EDIT.check(call, {"answer": fix["answer"]})

    assert (fix["asked"], fix["applied"], fix["green"]) == (1, 1, 1)
    assert edited["applied"], edited
    assert (call.workspace / "p.py").read_text() == FIXED


async def test_suspect_with_another_name_is_a_place_as_well(call: Context) -> None:
    """The function may be named otherwise in another project."""
    await store(call, symbol="other_name")
    suspects = [{"file": "p.py", "line": 1}]

    without = await RECALL.check(call, {"error": ERROR})
    found = await RECALL.check(call, {"error": ERROR, "suspects": suspects})

    assert without["fixes"] == []
    assert len(found["fixes"]) == 1


async def test_fix_that_fails_too_often_is_not_offered(call: Context) -> None:
    """The rate of one success and four failures is 2/7; after the sixth failure it is 2/9."""
    await store(call, failures=4)
    offered = await RECALL.check(call, {"error": ERROR})
    await store(call, failures=6)
    left = await RECALL.check(call, {"error": ERROR})

    assert len(offered["fixes"]) == 1
    assert left["fixes"] == []


async def test_fix_whose_lines_are_not_here_is_not_offered(call: Context) -> None:
    """A change at an uncertain place would break what works."""
    await store(call)
    assert call.workspace is not None
    (call.workspace / "p.py").write_text(BROKEN.replace("1 + b", "2 + b"))

    assert await RECALL.check(call, {"error": ERROR}) == {"fixes": []}
