"""The tool `check.progress`: when attempts go in circles."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context

PROGRESS = TOOLS["check.progress"]


@pytest.mark.proves("002-16")
@pytest.mark.parametrize(
    ("tries", "reason"),
    [
        ([], ""),
        (["e1 t1 p1"], ""),
        (["e1 t1 p1", "e1 t2 p2", "e2 t3 p3"], ""),
        (["e1 t1 p1", "e1 t1 p2"], "same error"),
        (["e1 t1 p1", "e2 t2 p2", "e1 t1 p3"], "same error"),
        (["e1 t1 p1", "e2 t2 p2", "e3 t1 p3"], "the same as after an earlier"),
        (["- t1 p1", "- t2 p2", "- t1 p3"], "the same as after an earlier"),
        (["e1 t1 p", "e2 t2 p", "e3 t3 p"], "3 times in a row"),
        (["- t1 p", "- t2 p", "- t3 p"], "3 times in a row"),
        (["- t1 p", "- t1 p"], ""),
        (["e1 t1 p", "e2 t2 q", "e3 t3 p"], ""),
    ],
)
async def test_circle_is_found_whatever_the_attempts_gave(tries: list[str], reason: str) -> None:
    """The same failure, A-B-A of the files, and equal patches; `-` is an attempt that succeeded."""
    given = [dict(zip(("signature", "tree", "patch"), one.split(), strict=True)) for one in tries]
    for one in given:
        one["signature"] = one["signature"].strip("-")

    told = await PROGRESS.check(Context(), {"tries": given})

    assert told["stuck"] is bool(reason)
    assert reason in told["reason"]
