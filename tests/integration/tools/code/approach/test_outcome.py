"""The tool `code.outcome` on a real ledger."""

from dataclasses import replace

from pipecatapp.records import edits
from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, Ledger
from tests.integration.tools.code.approach.conftest import MODEL

OUTCOME = TOOLS["code.outcome"]
GREEN = {"model": MODEL, "format": "function", "applied": True, "green": True}


async def test_each_answer_is_counted_once(call: Context) -> None:
    """The call is made again when a run is resumed; a refused answer is never green."""
    await OUTCOME.check(call, GREEN)
    again = await OUTCOME.check(call, GREEN)
    refused = GREEN | {"applied": False}
    second = await OUTCOME.check(replace(call, path="count#2"), refused)

    assert again == {"asked": 1, "applied": 1, "green": 1}
    assert second == {"asked": 2, "applied": 1, "green": 1}
    assert edits.counts(call.service(Ledger), MODEL)["blocks"] == (0, 0, 0)
