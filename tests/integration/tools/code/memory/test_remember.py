"""The tool `code.remember` on a real ledger and a real git workspace."""

from dataclasses import replace

import pytest

from pipecatapp.records import fixes
from pipecatapp.tools import TOOLS
from pipecatapp.tools.code.testing.outcome import CaseOutcome
from pipecatapp.workflow import Context, Ledger
from tests.integration.tools.code.memory.conftest import FIXED, results

REMEMBER = TOOLS["code.remember"]
RED, GREEN = results("failed"), results("passed")


async def change(ctx: Context, name: str = "p.py") -> None:
    """Change a file of the workspace as a tool of the run does."""
    assert ctx.worktree is not None
    (ctx.worktree.folder / name).write_text(FIXED)
    await ctx.worktree.commit("Change")


async def test_change_that_made_the_test_pass_is_stored_once(call: Context) -> None:
    """The call is made again when the run is resumed."""
    await change(call)

    first = await REMEMBER.check(call, {"before": RED, "after": GREEN})
    again = await REMEMBER.check(call, {"before": RED, "after": GREEN})

    [fix] = fixes.find(call.service(Ledger))
    assert first == again == {"id": fix.id, "green": True, "reason": ""}
    assert (fix.signature, fix.pattern, fix.language) == (
        "AssertionError: assert <n> == <n> [test_total]",
        "AssertionError: assert <n> == <n>",
        "Python",
    )
    assert [(one.path, one.symbol) for one in fix.edit] == [("p.py", "total")]
    assert (fix.asked, fix.applied, fix.green) == (1, 1, 1)


@pytest.mark.parametrize(
    ("outcome", "others", "reason"),
    [
        ("failed", "passed", "test_p.py::test_total still fails."),
        ("skipped", "passed", "test_p.py::test_total is skipped."),
        ("passed", "failed", "test_p.py::test_other passed before."),
    ],
)
async def test_nothing_is_stored_unless_the_same_test_passes_and_no_other_fails(
    call: Context, outcome: CaseOutcome, others: CaseOutcome, reason: str
) -> None:
    """A change that only moves the failure is no fix."""
    await change(call)
    after = results(outcome, others=others)

    result = await REMEMBER.check(call, {"before": RED, "after": after})

    assert result == {"id": None, "green": False, "reason": reason}
    assert fixes.find(call.service(Ledger)) == []


async def test_change_that_breaks_the_other_tests_is_not_stored(call: Context) -> None:
    """The tests of the check count as those of the command do."""
    await change(call)
    given = {"before": RED, "after": GREEN, "other_before": GREEN, "other_after": RED}

    result = await REMEMBER.check(call, given)

    assert (result["green"], result["reason"]) == (False, "The other tests fail.")
    assert fixes.find(call.service(Ledger)) == []


async def test_new_file_is_reported_and_not_stored(call: Context) -> None:
    """It cannot be found again in another project; the fix itself is still delivered."""
    await change(call, "new.py")

    result = await REMEMBER.check(call, {"before": RED, "after": GREEN})

    assert (result["id"], result["green"]) == (None, True)
    assert "existing files" in result["reason"]


async def test_tries_of_a_stored_fix_are_counted(call: Context) -> None:
    """A failure and a change that cannot be applied are different numbers."""
    await change(call)
    stored = await REMEMBER.check(call, {"before": RED, "after": GREEN})

    for path, after in (("a", GREEN), ("b", RED), ("c", None)):
        given = {"before": RED, "after": after, "fix": stored["id"]}
        await REMEMBER.check(replace(call, path=path), given)
    lost = await REMEMBER.check(call, {"before": RED, "after": GREEN, "fix": "nosuch"})

    [fix] = fixes.find(call.service(Ledger))
    assert (fix.asked, fix.applied, fix.green) == (4, 3, 2)
    assert lost == {"id": None, "green": True, "reason": "The stored fix was removed meanwhile."}
