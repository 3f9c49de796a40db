"""Axes: round numbers and dates as ticks, and how they are written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Distances of ticks that people read easily. Source: Heckbert, "Nice numbers for graph labels",
Graphics Gems (1990), with 2.5 added."""
UNITS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels; `ticks` are values and their texts."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float, start: float, end: float) -> float:
        """Return the place of a value between two pixels."""
        return start + (value - self.low) / (self.high - self.low) * (end - start)


def number_scale(low: float, high: float, most: int, *, zero: bool) -> Scale:
    """Return a scale with at most `most` round ticks that contains all values.

    With `zero` it begins or ends at zero, as bars and areas need it.
    """
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if _is_one(low, high):
        pad = max(abs(low) * 0.5, 1e-80) if abs(low) > 1e-80 else 1.0
        low, high = (low, high + pad) if zero and low >= 0 else (low - pad, high + pad)
    step = nice_step((high - low) / max(1, most - 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    values = [index * step for index in range(first, last + 1)]
    most_digits = max(map(abs, (values[0], values[-1])))
    years = not zero and step >= 1 and values[0] >= 1000 and values[-1] < 3000
    texts = [str(int(v)) if years else _written(v, step, most_digits) for v in values]
    return Scale(values[0], values[-1], tuple(zip(values, texts, strict=True)))


def _is_one(low: float, high: float) -> bool:
    """Return whether two values are too near to each other for ticks between them."""
    return high - low <= 1e-12 * max(abs(low), abs(high), 1e-80)


def nice_step(least: float) -> float:
    """Return the smallest round distance that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(one * power for one in STEPS if one * power >= least * (1 - 1e-9))


def _written(value: float, step: float, largest: float) -> str:
    """Write a tick with as many decimals as its distance needs; all ticks have the same unit."""
    for size, unit in UNITS:
        if largest >= size:
            return _decimals(value / size, step / size) + (unit if value else "")
    if step < 1e-4:
        return f"{value:.3g}"
    return _decimals(value, step)


def _decimals(value: float, step: float) -> str:
    decimals = next((n for n in range(6) if abs(round(step, n) - step) < step * 1e-6), 6)
    text = f"{value:,.{decimals}f}"
    return "0" if float(text.replace(",", "")) == 0 else text


def short(value: float) -> str:
    """Write a value beside its bar or slice."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}"
    for size, unit in UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def date_of(text: object) -> datetime | None:
    """Read an ISO 8601 date or time; times without a zone are UTC. None for other texts."""
    if not isinstance(text, str) or len(text) < len("2026-01") or not text[:4].isdigit():
        return None
    try:
        found = datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-01") else text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


MINUTE, HOUR, DAY = 60, 3600, 86400
EVERY: Final = (
    *((seconds, "%H:%M:%S") for seconds in (1, 5, 15, 30)),
    *((minutes * MINUTE, "%H:%M") for minutes in (1, 5, 15, 30)),
    *((hours * HOUR, "%H:%M") for hours in (1, 3, 6, 12)),
    *((days * DAY, "%d %b") for days in (1, 2, 7, 14)),
)
"""Distances of ticks in seconds, and how the times are written."""
MONTHS: Final = (1, 3, 6, 12, 24, 60, 120, 240, 600, 1200)


def time_scale(low: float, high: float, most: int) -> Scale:
    """Return a scale of POSIX times with ticks at full hours, days, months or years."""
    if low == high:
        low, high = low - 2 * DAY, high + 2 * DAY
    every = next((one for one in EVERY if (high - low) / one[0] <= most), None)
    ticks = _even(low, high, *every) if every else _months(low, high, most)
    return Scale(low, high, tuple(ticks))


def _even(low: float, high: float, step: int, form: str) -> list[tuple[float, str]]:
    ticks = [float(n * step) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    days = high - low > DAY and step < DAY
    return [
        (at, _time(at, "%d %b" if days and at % DAY == 0 else form)) for at in ticks
    ]  # fmt: skip


def _months(low: float, high: float, most: int) -> list[tuple[float, str]]:
    first, last = _utc(low), _utc(high)
    months = (last.year - first.year) * 12 + last.month - first.month
    step = next((one for one in MONTHS if months / one <= most), MONTHS[-1])
    form = "%Y" if step >= 12 else "%b %Y"
    begin = first.year * 12 + first.month - 1
    found = []
    for index in range(begin - begin % step, begin + months + 1, step):
        if index < 12:
            continue
        at = datetime(index // 12, index % 12 + 1, 1, tzinfo=UTC).timestamp()
        if low <= at <= high:
            found.append((at, _time(at, form)))
    return found


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LAST: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""The times that Python's dates can have."""


def _utc(at: float) -> datetime:
    return EPOCH + timedelta(seconds=min(max(at, FIRST), LAST))


def _time(at: float, form: str) -> str:
    return _utc(at).strftime(form).lstrip("0") if form.startswith("%d") else _utc(at).strftime(form)


def edges(values: Sequence[float], bins: int | None) -> list[float]:
    """Return round edges of bins for a histogram.

    Without `bins`, their width follows Freedman and Diaconis (1981): 2 IQR / n^(1/3).
    """
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    if _is_one(low, high):
        pad = max(0.5, abs(low) * 0.01)
        return [low - pad, high + pad]
    if bins is None:
        quarter = len(ordered) // 4
        spread = ordered[-1 - quarter] - ordered[quarter]
        wide = 2 * spread / len(ordered) ** (1 / 3)
        wide = wide if wide > (high - low) / 1000 else (high - low) / 10
        bins = max(3, min(60, math.ceil((high - low) / wide)))
    step = nice_step((high - low) / bins)
    first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9) + 1
    return [index * step for index in range(first, last + 1)]
