"""The times of a schedule: cron lines in a time zone, or an interval."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MACHINE_ZONE: Final = Path("/etc/localtime")


class WrongTiming(ValueError):
    """The timing is not valid. The message names the wrong part."""


@dataclass(frozen=True)
class Timing:
    """A cron line in a zone (None is the machine's), or an interval in seconds.

    Cron lines are read as Debian's cron reads them, also where a clock is put forward or back.
    """

    cron: str | None = None
    every: float | None = None
    zone: str | None = None

    def check(self) -> None:
        """Raises `WrongTiming` for what no schedule can be."""
        if (self.cron is None) == (self.every is None):
            raise WrongTiming("use either a cron expression or an interval")
        if self.every is not None and not 1 <= self.every <= 10 * 366 * 86400:
            raise WrongTiming("an interval is between a second and ten years")
        if self.cron is not None and len(self.cron.split()) != 5:
            raise WrongTiming("a cron line has five fields: minute, hour, day, month, weekday")
        if self.after(datetime.now(UTC)) is None:
            raise WrongTiming(f"no day fits {self.cron!r}")

    def after(self, moment: datetime) -> datetime | None:
        """The first time after a moment, in UTC; None when there is none in fifty years."""
        if self.every is not None:
            return moment + timedelta(seconds=self.every)
        try:
            found = next(CronSim(str(self.cron), moment.astimezone(zone_of(self.zone))), None)
        except CronSimError as error:
            raise WrongTiming(f"not a cron line: {error}") from error
        return found and found.astimezone(UTC)

    def next_due(self, due: datetime, now: datetime) -> datetime | None:
        """Return the next time after `due` that is in the future; times in between are missed.

        An interval keeps its phase: 08:00, 09:00, 10:00, regardless of delays.
        """
        if self.every is None:
            return self.after(max(due, now))
        beats = int((now - due).total_seconds() // self.every) + 1
        return due + timedelta(seconds=self.every * max(1, beats))


def zone_of(name: str | None) -> ZoneInfo:
    """Return the zone of that name, or the machine's; UTC if the machine has none."""
    try:
        if name:
            return ZoneInfo(name)
        with MACHINE_ZONE.open("rb") as file:
            return ZoneInfo.from_file(file, key=_name_of(MACHINE_ZONE))
    except FileNotFoundError:
        return ZoneInfo("UTC")
    except (LookupError, ValueError, OSError) as error:
        raise WrongTiming(f"there is no time zone {name or 'in ' + str(MACHINE_ZONE)!r}") from error


def _name_of(link: Path) -> str:
    """`Europe/Berlin`, from the file that the link leads to."""
    return str(link.resolve()).rpartition("/zoneinfo/")[2]
