"""Waiting, over restarts too."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, ToolFailed, tool

LONGEST = 30 * 24 * 3600
"""Seconds; for longer times, use a schedule."""


class Waited(BaseModel):
    """When the wait was over."""

    until: str = Field(description="The moment waited for: ISO 8601, UTC.")
    late: float = Field(description="Seconds by which it was missed, because nothing ran then.")


@tool("wait", effect="read", version=1)
async def wait(
    ctx: Context,
    seconds: Annotated[
        float | None, Field(description="How long, from now.", ge=0, le=LONGEST)
    ] = None,
    until: Annotated[
        str | None, Field(description="Or a moment, as ISO 8601; without an offset it is UTC.")
    ] = None,
) -> Waited:
    """Wait for some time, or until a moment; a restart meanwhile does not make it longer."""
    if (seconds is None) == (until is None):
        raise ToolFailed("Use either `seconds` or `until`.")
    end = moment(until) if until is not None else await begin(ctx) + timedelta(seconds=seconds or 0)
    late = (datetime.now(UTC) - end).total_seconds()
    if until is not None and late < -LONGEST:
        raise ToolFailed(f"{end:%Y-%m-%d} is too far away to wait for; use a schedule.")
    left = max(0.0, -late)
    # A clock that was put back meanwhile makes the end look far away.
    await asyncio.sleep(left if seconds is None else min(left, seconds))
    return Waited(until=end.isoformat(timespec="seconds"), late=round(max(0.0, late), 3))


async def begin(ctx: Context) -> datetime:
    """Return the start of the wait, recorded as a separate step that a resumed run reuses."""
    if not ctx.run:
        return datetime.now(UTC)
    told = await ctx.call("time.now", {"zone": "UTC"}, at="begin")
    return datetime.fromisoformat(told["iso"])


def moment(text: str) -> datetime:
    """A moment as ISO 8601 writes it."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ToolFailed(f"{text!r} is not a time such as 2026-01-31T17:05:00Z.") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
