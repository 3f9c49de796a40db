"""How an event stream waits, and how it ends."""

import asyncio
from collections.abc import AsyncIterator

from pipecatapp.api.events import KEEP_ALIVE, encoded, until_stop
from pipecatapp.api.parts import Stop
from pipecatapp.workflow import Delta, Event

DELTA = Delta(run="r", path="reply", text="Hi", offset=3)
EVENT = Event(seq=7, run="r", at="2026-01-01T00:00:00.000Z", type="node.done", path="reply")


class Heard:
    """Gives its items at once, then waits for ever; remembers whether it was closed."""

    def __init__(self, *items: Delta | Event) -> None:
        self.items, self.closed = items, False

    async def __call__(self) -> AsyncIterator[Delta | Event]:
        try:
            for item in self.items:
                yield item
            await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_silence_is_filled_so_that_proxies_keep_the_connection() -> None:
    """A model may think for minutes; nothing on the way may take that for a dead line."""
    heard = Heard(DELTA)
    told = until_stop(heard(), Stop(), silence=0.01)

    assert [await anext(told) for _ in range(3)] == [DELTA, None, None]
    assert KEEP_ALIVE.startswith(b":")
    assert KEEP_ALIVE.endswith(b"\n\n")


async def test_stop_ends_a_stream_that_waits_and_lets_its_run_go() -> None:
    """SIGTERM must not wait for a page that somebody left open."""
    heard, stop = Heard(DELTA), Stop()
    stop.bind()
    told = until_stop(heard(), stop)
    assert await anext(told) == DELTA

    stop()

    assert [item async for item in told] == []
    assert heard.closed


async def test_items_that_are_there_come_before_the_stop() -> None:
    """What has happened is told even while the service stops."""
    stop = Stop()
    stop.bind()
    stop()
    await asyncio.sleep(0)

    told = until_stop(Heard(EVENT)(), stop)

    assert await anext(told) == EVENT


def test_events_have_an_id_to_come_back_with_and_text_has_none() -> None:
    """A browser sends the last id it saw; text comes again by its offset."""
    event, delta = encoded(EVENT).decode(), encoded(DELTA).decode()

    assert event.startswith("id: 7\nevent: node.done\ndata: {")
    assert delta == 'event: delta\ndata: {"path":"reply","text":"Hi","offset":3}\n\n'


def test_stop_before_the_loop_runs_is_no_error() -> None:
    """A signal may come while the service still starts."""
    stop = Stop()

    stop()

    assert not stop.asked
    assert stop.left(5) == 5
