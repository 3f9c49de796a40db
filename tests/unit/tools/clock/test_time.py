"""The tool `time.now`."""

from datetime import UTC, datetime, timedelta

import pytest

from pipecatapp.tools import TOOLS
from pipecatapp.tools.clock.time import near_zones
from pipecatapp.workflow import Context, ToolFailed

NOW = TOOLS["time.now"]


async def test_time_now_tells_the_wall_clock_of_the_zone_that_was_asked_for() -> None:
    """Somebody who asks what time it is in Tokyo must not get the time of the server."""
    told = await NOW.check(Context(), {"zone": "Asia/Tokyo"})

    moment = datetime.fromisoformat(told["iso"])
    assert moment.utcoffset() == timedelta(hours=9)
    assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)
    assert (told["date"], told["time"]) == (f"{moment:%Y-%m-%d}", f"{moment:%H:%M}")
    assert told["weekday"] == f"{moment:%A}"
    assert told["zone"] == "Asia/Tokyo"


async def test_time_now_without_a_zone_is_the_time_of_this_machine() -> None:
    """At home "what time is it" means here."""
    told = await NOW.check(Context(), {})

    here = datetime.now().astimezone()
    assert datetime.fromisoformat(told["iso"]).utcoffset() == here.utcoffset()


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
        ("../../etc/passwd", None),
    ],
)
async def test_time_now_offers_near_names_for_an_unknown_zone(asked: str, near: str | None) -> None:
    """The model reads the answer and asks again with the right name."""
    with pytest.raises(ToolFailed, match="There is no time zone") as caught:
        await NOW.check(Context(), {"zone": asked})

    assert near is None or near in str(caught.value)


def test_near_zones_of_nonsense_are_none() -> None:
    """A wrong suggestion is worse than none."""
    assert near_zones("qqqqqqqq") == []
