"""The tool `human.note`."""

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

NOTE = TOOLS["human.note"]


async def test_note_is_heard_and_kept_with_the_step() -> None:
    """Who looks later must find what those who looked then were told."""
    heard: list[str] = []
    ctx = Context(speak=heard.append)

    told = await NOTE.check(ctx, {"text": "Half of it is done."})

    assert told == {"text": "Half of it is done."}
    assert heard == ["Half of it is done."]
    assert ctx.facts.more == {"note": "Half of it is done."}


@pytest.mark.parametrize("text", ["", "x" * 4001])
async def test_note_refuses_what_is_no_remark(text: str) -> None:
    """A page of text belongs into a file."""
    with pytest.raises(ToolFailed, match="text"):
        await NOTE.check(Context(), {"text": text})
