"""Listeners: nothing is lost, nothing grows without need, and nobody holds up the run."""

from pipecatapp.workflow import Delta, Event, Listener
from pipecatapp.workflow.channel import Channel


def event(seq: int) -> Event:
    return Event(seq=seq, run="r", at="2026-01-01T00:00:00.000Z", type="node.done", path=f"n{seq}")


async def heard(listener: Listener) -> list[tuple[str, str, int] | int]:
    return [
        (item.path, item.text, item.offset) if isinstance(item, Delta) else item.seq
        async for item in listener
    ]


async def test_slow_listener_gets_text_in_one_piece() -> None:
    """A thousand words that nobody took wait as one delta, and their order to events is kept."""
    channel, listener = Channel("r"), Listener()
    channel.join(listener)

    for i in range(1000):
        channel.say("a", f"{i} ")
        channel.say("b", ".")
    channel.publish(event(1))
    channel.say("a", "after")
    channel.close()

    whole = "".join(f"{i} " for i in range(1000))
    assert await heard(listener) == [
        ("a", whole, 0),
        ("b", "." * 1000, 0),
        1,
        ("a", "after", len(whole)),
    ]


async def test_late_listener_first_hears_what_was_said() -> None:
    """A page that is loaded in mid-answer shows the answer from its beginning."""
    channel, early, late = Channel("r"), Listener(), Listener()
    channel.join(early)
    channel.say("a", "one ")
    channel.join(late)
    channel.say("a", "two")
    channel.close()

    assert await heard(early) == [("a", "one two", 0)]
    assert await heard(late) == [("a", "one two", 0)]


async def test_listener_that_left_or_came_too_late_ends() -> None:
    """Nobody waits for a run that is over."""
    channel, gone, late = Channel("r"), Listener(), Listener()
    channel.join(gone)
    channel.leave(gone)
    channel.say("a", "unheard")
    gone.end()
    channel.close()
    channel.join(late)

    assert await heard(gone) == []
    assert await heard(late) == [("a", "unheard", 0)]
