"""`/api/runs/{id}/events`: what happens in a run, as server-sent events."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Final

from fastapi import Depends, Header, Query
from starlette.responses import StreamingResponse

from hearth.openai_api.sse import sse_event
from hearth.service.http_errors import Refused
from pipecatapp.api.access import known_caller
from pipecatapp.api.owners import own_run
from pipecatapp.api.parts import Parts, Stop, WithParts
from pipecatapp.api.routing import api_router
from pipecatapp.application.engine import Delta, Event

KEEP_ALIVE_SECONDS: Final = 15.0
KEEP_ALIVE: Final = b": still here\n\n"
LAST: Final = 2**63 - 1
"""The largest number that an event can have: SQLite's."""

router = api_router("/api/runs", dependencies=[Depends(known_caller), Depends(own_run)])


@router.get("/{run}/events")
async def follow_run(
    run: str,
    parts: WithParts,
    after: Annotated[int, Query(ge=0, le=LAST)] = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Return every event after `after` (or after the header `Last-Event-ID`, which browsers send
    when they reconnect), then live events and text, until the run ends with the event `end`.

    A stream without `end` was interrupted: the service stops, or waits to resume the run.
    Reconnect.
    """
    parts.runs.engine.summary(run)
    return StreamingResponse(
        _stream(parts, run, _start(after, last_event_id)),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


def _start(after: int, last_event_id: str | None) -> int:
    if last_event_id is None:
        return after
    if not re.fullmatch(r"[0-9]{1,18}", last_event_id):
        raise Refused(400, "invalid_event_id", f"Last-Event-ID {last_event_id!r} is not a number.")
    return int(last_event_id)


async def _stream(parts: Parts, run: str, after: int) -> AsyncIterator[bytes]:
    yield KEEP_ALIVE
    with parts.metrics.listening():
        heard = parts.runs.engine.listen(run, after=after)
        async for item in until_stop(heard, parts.stop):
            yield KEEP_ALIVE if item is None else encoded(item)
    if parts.runs.has_ended(run):
        yield sse_event({"run": run}, event="end")


def encoded(item: Delta | Event) -> bytes:
    """Encode one event of the stream. Text has no id: a client that reconnects gets it from the
    node."""
    if isinstance(item, Delta):
        told = {"path": item.path, "text": item.text, "offset": item.offset}
        return sse_event(told, event="delta")
    return sse_event(item.model_dump(mode="json"), event=item.type, id=str(item.seq))


async def until_stop(
    heard: AsyncIterator[Delta | Event], stop: Stop, *, silence: float = KEEP_ALIVE_SECONDS
) -> AsyncIterator[Delta | Event | None]:
    """Yield the items of `heard` until the service stops; None after each long pause."""
    stopping = asyncio.create_task(stop.wait())
    item = asyncio.ensure_future(anext(heard))
    try:
        while True:
            await asyncio.wait(
                {item, stopping}, timeout=silence, return_when=asyncio.FIRST_COMPLETED
            )
            if item.done():
                try:
                    yield item.result()
                except StopAsyncIteration:
                    return
                item = asyncio.ensure_future(anext(heard))
            elif stopping.done():
                return
            else:
                yield None
    finally:
        stopping.cancel()
        item.cancel()
        await asyncio.gather(stopping, item, return_exceptions=True)
        if isinstance(heard, AsyncGenerator):
            await heard.aclose()
