"""The tool `wait`."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.workflow import Context, ToolFailed

WAIT = TOOLS["wait"]


def begun(ago: float) -> Context:
    """A run whose wait began some seconds ago, before the service was started anew."""
    moment = (datetime.now(UTC) - timedelta(seconds=ago)).isoformat()

    async def inner(tool: str, given: Mapping[str, Any], *, at: str, say: Any) -> dict[str, Any]:
        assert (tool, at) == ("time.now", "begin")
        return {"iso": moment}

    return Context(run="r1", inner=inner)


async def test_wait_takes_its_time() -> None:
    """A workflow that asks a slow service again must leave it some."""
    start = time.monotonic()

    told = await WAIT.check(Context(), {"seconds": 0.2})

    assert 0.19 <= time.monotonic() - start < 60
    assert told["late"] < 60


async def test_wait_goes_on_where_a_restart_cut_it_off() -> None:
    """An hour's wait must not begin anew with every update of the machine."""
    start = time.monotonic()

    told = await WAIT.check(begun(ago=3599.9), {"seconds": 3600})
    late = await WAIT.check(begun(ago=4000), {"seconds": 3600})

    assert time.monotonic() - start < 60
    assert told["late"] < 60
    assert 399 < late["late"] < 460


@pytest.mark.parametrize("ahead", [3600, 365 * 86400])
async def test_wait_that_goes_on_after_the_clock_moved_back_takes_no_longer(ahead: float) -> None:
    """A machine without a battery clock starts in the past; a pause of a moment took an hour."""
    async with asyncio.timeout(60):
        told = await WAIT.check(begun(ago=-ahead), {"seconds": 0.1})

    assert told["late"] == 0


async def test_wait_until_a_moment_that_is_over_ends_at_once() -> None:
    """It says by how much it was missed, so that a workflow can decide."""
    told = await WAIT.check(Context(), {"until": "2026-01-01T00:00:00"})

    assert told["until"] == "2026-01-01T00:00:00+00:00"
    assert told["late"] > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either `seconds` or `until`"),
        ({"seconds": 1, "until": "2026-01-01T00:00:00Z"}, "either"),
        ({"until": "tomorrow"}, "not a time"),
        ({"until": "2999-01-01T00:00:00Z"}, "too far"),
        ({"seconds": -1}, "seconds"),
    ],
)
async def test_wait_refuses_what_it_cannot_wait_for(given: dict[str, Any], said: str) -> None:
    """A run that waits for nothing would wait for ever."""
    with pytest.raises(ToolFailed, match=said):
        await WAIT.check(Context(), given)
