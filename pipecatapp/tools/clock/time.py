"""The time, in the zone of this machine or in any other."""

import zoneinfo
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from typing import Annotated

from pydantic import BaseModel, Field

from pipecatapp.workflow import Context, ToolFailed, tool

LOCAL = "local"


class Now(BaseModel):
    """One moment, as a person in that zone reads it from the wall."""

    zone: str = Field(description="The zone that the time is of.")
    iso: str = Field(description="ISO 8601 with the offset from UTC, to the second.")
    date: str = Field(description="Year, month and day, such as 2026-01-31.")
    time: str = Field(description="Hours and minutes of 24, such as 17:05.")
    weekday: str = Field(description="In English.")


@tool("time.now", effect="read", version=1)
async def now(
    ctx: Context,
    zone: Annotated[
        str, Field(description="IANA time zone such as Europe/Berlin, or local: this machine's.")
    ] = LOCAL,
) -> Now:
    """Tell the present date, time and weekday in a time zone."""
    moment = datetime.now(UTC).astimezone(find_zone(zone))
    return Now(
        zone=(moment.tzname() or LOCAL) if zone == LOCAL else zone,
        iso=moment.isoformat(timespec="seconds"),
        date=f"{moment:%Y-%m-%d}",
        time=f"{moment:%H:%M}",
        weekday=f"{moment:%A}",
    )


def find_zone(name: str) -> tzinfo | None:
    """The zone of that name, None for this machine's; an unknown one fails with the near names."""
    if name == LOCAL:
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = near_zones(name)
        question = f" Did you mean {' or '.join(near)}?" if near else ""
        raise ToolFailed(f"There is no time zone {name!r}.{question}") from error


def near_zones(name: str) -> list[str]:
    """Up to three zones that are written alike, or whose city is; places of that name first."""
    known = sorted(zoneinfo.available_timezones())
    asked = name.strip().replace(" ", "_").casefold()
    cities: dict[str, str] = {}
    for zone in known:
        cities.setdefault(zone.rpartition("/")[2].casefold(), zone)
    if asked in cities:
        return [cities[asked]]
    whole = {zone.casefold(): zone for zone in known}
    near = [whole[found] for found in get_close_matches(asked, whole, n=3, cutoff=0.7)]
    near += [cities[found] for found in get_close_matches(asked, cities, n=3, cutoff=0.75)]
    return list(dict.fromkeys(near))[:3]
