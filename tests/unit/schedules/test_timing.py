"""When a schedule is due."""

from datetime import UTC, datetime, timedelta

import pytest

from pipecatapp.application.schedules.timing import Timing, WrongTiming

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_cron_line_is_read_in_its_zone() -> None:
    """Eight in the morning is eight in the morning in summer, too."""
    daily = Timing(cron="0 8 * * *", zone=BERLIN)

    assert daily.after(at("2026-01-10T00:00")) == at("2026-01-10T07:00")
    assert daily.after(at("2026-07-10T00:00")) == at("2026-07-10T06:00")


def test_hour_that_a_clock_leaves_out_is_not_lost() -> None:
    """A daily job at 02:30 runs also on the night in which there is no 02:30."""
    nightly = Timing(cron="30 2 * * *", zone=BERLIN)

    due = nightly.after(at("2026-03-28T12:00"))

    assert due == at("2026-03-29T01:00")


def test_hour_that_comes_twice_is_due_once() -> None:
    """A bill must not be sent twice because a clock was put back."""
    nightly = Timing(cron="30 2 * * *", zone=BERLIN)

    first = nightly.after(at("2026-10-24T12:00"))
    assert first is not None
    second = nightly.after(first)

    assert second is not None
    assert second - first >= timedelta(hours=23)


@pytest.mark.parametrize(
    ("timing", "now", "due"),
    [
        (Timing(cron="0 * * * *", zone="UTC"), "2026-05-01T13:20", "2026-05-01T14:00"),
        (Timing(every=3600), "2026-05-01T13:20", "2026-05-01T14:10"),
        (Timing(every=3600), "2026-05-01T09:11", "2026-05-01T10:10"),
    ],
)
def test_times_that_were_missed_are_passed_over(timing: Timing, now: str, due: str) -> None:
    """Five missed hours are one start, and an interval keeps its beat."""
    assert timing.next_due(at("2026-05-01T09:10"), at(now)) == at(due)


@pytest.mark.parametrize(
    ("timing", "told"),
    [
        (Timing(), "either"),
        (Timing(cron="0 8 * * *", every=60), "either"),
        (Timing(cron="0 8 * *"), "five fields"),
        (Timing(cron="61 8 * * *"), "Bad minute"),
        (Timing(cron="0 8 30 2 *"), "day"),
        (Timing(every=0.1), "second"),
        (Timing(cron="0 8 * * *", zone="Mars/Base"), "Mars/Base"),
    ],
)
def test_what_has_no_time_is_refused_with_the_reason(timing: Timing, told: str) -> None:
    """A schedule that never starts would be noticed when it is too late."""
    with pytest.raises(WrongTiming, match=told):
        timing.check()
