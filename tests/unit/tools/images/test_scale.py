"""Ticks of axes: round numbers and dates."""

import pytest

from pipecatapp.tools.images.drawing.scale import (
    date_of,
    edges,
    nice_step,
    number_scale,
    short,
    time_scale,
)


def texts(low: float, high: float, *, zero: bool = False, most: int = 6) -> list[str]:
    """The ticks of a scale of numbers."""
    return [text for _, text in number_scale(low, high, most, zero=zero).ticks]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 12.3, ["0", "2.5", "5.0", "7.5", "10.0", "12.5"]),
        (-1.9, 12.3, ["-5", "0", "5", "10", "15"]),
        (0, 150000, ["0", "50,000", "100,000", "150,000"]),
        (0, 2.4e6, ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]),
        (2018, 2023, ["2018", "2019", "2020", "2021", "2022", "2023"]),
        (0.0001, 0.0005, ["0.0001", "0.0002", "0.0003", "0.0004", "0.0005"]),
        (5, 5, ["2", "3", "4", "5", "6", "7", "8"]),
    ],
)
def test_ticks_are_round_numbers_that_hold_all_values(
    low: float, high: float, expected: list[str]
) -> None:
    """Readers compare with ticks, which are easy only as multiples of 1, 2, 2.5 and 5."""
    scale = number_scale(low, high, 6, zero=False)
    assert [text for _, text in scale.ticks] == expected
    assert scale.low <= low
    assert scale.high >= high


def test_bars_begin_at_zero() -> None:
    """A bar that is cut off shows a ratio that is not there."""
    assert texts(90, 100, zero=True)[0] == "0"
    assert texts(-100, -90, zero=True)[-1] == "0"


@pytest.mark.parametrize(
    ("least", "step"), [(0.3, 0.5), (1, 1), (1.01, 2), (23, 25), (6000, 10000)]
)
def test_steps_are_round(least: float, step: float) -> None:
    """The smallest round step that is large enough."""
    assert nice_step(least) == pytest.approx(step)


@pytest.mark.parametrize(
    ("low", "high", "first"),
    [
        ("2026-03-01", "2026-03-08", "1 Mar"),
        ("2026-03-01T10:00", "2026-03-01T11:00", "10:00"),
        ("2024-11-10", "2026-03-01", "Jan 2025"),
        ("1950-06-01", "2026-03-01", "1960"),
    ],
)
def test_times_have_ticks_at_full_units(low: str, high: str, first: str) -> None:
    """Days, hours, months or years, by the length of the axis."""
    begin, end = date_of(low), date_of(high)
    assert begin
    assert end
    scale = time_scale(begin.timestamp(), end.timestamp(), 8)
    assert scale.ticks[0][1] == first
    assert 2 <= len(scale.ticks) <= 9


@pytest.mark.parametrize("text", ["Monday", "12", "", "2026-13-01", "20260301x", None, 2026])
def test_text_that_is_no_date_is_a_name(text: object) -> None:
    """Names of places must not become times."""
    assert date_of(text) is None


def test_bins_are_round_and_hold_all_values() -> None:
    """The largest value has a bin as well."""
    values = [0.3, 1.7, 2.2, 2.4, 3.0, 9.9, 10.0]
    bounds = edges(values, 5)
    assert bounds[0] <= 0.3
    assert bounds[-1] > 10.0
    assert edges([4.0, 4.0], None) == [3.5, 4.5]


@pytest.mark.parametrize(("value", "text"), [(1234567, "1.23M"), (12, "12"), (0.1234, "0.123")])
def test_value_is_written_short(value: float, text: str) -> None:
    """It has to fit on its bar."""
    assert short(value) == text
