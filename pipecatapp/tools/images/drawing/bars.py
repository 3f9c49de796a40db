"""Draw bar charts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pipecatapp.tools.images.drawing.data import ChartData, WrongData
from pipecatapp.tools.images.drawing.fonts import shortened, width
from pipecatapp.tools.images.drawing.frame import (
    Area,
    axis_title,
    begun,
    labels_for,
    value_axis,
    write_labels,
)
from pipecatapp.tools.images.drawing.scale import Scale, number_scale, short
from pipecatapp.tools.images.drawing.svg import Svg
from pipecatapp.tools.images.drawing.theme import SMALL

FILLED: Final = 0.72
"""Part of the room of a label that its bars fill."""
MOST_BARS: Final = 2000


@dataclass(frozen=True)
class Bar:
    """One bar: the place of its label, its place among the bars there, and its ends."""

    label: int
    slot: int
    series: int
    low: float
    high: float
    value: float


def draw_bars(svg: Svg, data: ChartData) -> None:
    """Draw a bar chart. Raises `WrongData`."""
    count = max(len(one.values) for one in data.series)
    names = [str(label) for label in data.labels] or [str(n + 1) for n in range(count)]
    wrong = next((one for one in data.series if len(one.values) != len(names)), None)
    if wrong is not None:
        raise WrongData(
            f"{wrong.name or 'The series'} has {len(wrong.values)} values for {len(names)} labels:"
            " give one label for each value."
        )
    if len(names) * len(data.series) > MOST_BARS:
        raise WrongData(f"More than {MOST_BARS} bars cannot be read: draw a line instead.")
    bars = list(_bars(data))
    slots = 1 if data.stacked else len(data.series)
    legend = [one.name for one in data.series] if len(data.series) > 1 else []
    area = begun(data, legend, svg)
    axis_title(svg, area, data.y_title if data.horizontal else data.x_title)
    draw = _lying if data.horizontal else _standing
    draw(svg, data, area, bars, names, slots)


def _bars(data: ChartData) -> Iterator[Bar]:
    tops: dict[tuple[int, bool], float] = {}
    for index, one in enumerate(data.series):
        for label, value in enumerate(one.values):
            if value is None:
                continue
            if not data.stacked:
                yield Bar(label, index, index, min(0, value), max(0, value), value)
                continue
            key = label, value < 0
            begin = tops.get(key, 0.0)
            tops[key] = begin + value
            low, high = sorted((begin, begin + value))
            yield Bar(label, 0, index, low, high, value)


def _scale(bars: list[Bar], most: int) -> Scale:
    low, high = min(bar.low for bar in bars), max(bar.high for bar in bars)
    return number_scale(low, high, max(3, most), zero=True)


def _standing(
    svg: Svg, data: ChartData, area: Area, bars: list[Bar], names: list[str], slots: int
) -> None:
    guess = _scale(bars, int(area.height / 48))
    room = area.width - max(width(text, SMALL) for _, text in guess.ticks) - 8
    labels = labels_for(names, room / len(names), first=area.width - room)
    area.bottom -= labels.height + 6
    scale = _scale(bars, int(area.height / 48))
    value_axis(svg, scale, area, data.y_title)
    step = area.width / len(names)
    wide = step * FILLED / slots
    zero = scale.at(0, area.bottom, area.top)
    shows = not data.stacked and all(width(short(bar.value), SMALL) <= wide + 4 for bar in bars)
    for bar in bars:
        x = area.left + step * (bar.label + (1 - FILLED) / 2) + wide * bar.slot
        top, bottom = (scale.at(v, area.bottom, area.top) for v in (bar.high, bar.low))
        _box(svg, x, top, wide, bottom - top, bar)
        if shows:
            y = top - 5 if bar.value >= 0 else bottom + SMALL
            svg.text(x + wide / 2, y, short(bar.value), size=SMALL, colour=svg.theme.soft,
                     anchor="middle")  # fmt: skip
    svg.line(area.left, zero, area.right, zero, svg.theme.soft, stroke_width=1)
    places = [area.left + step * (n + 0.5) for n in range(len(names))]
    write_labels(svg, labels, places, area.bottom + 2)


def _box(svg: Svg, x: float, y: float, wide: float, high: float, bar: Bar) -> None:
    gap = min(1.5, wide * 0.08)
    svg.box(x + gap, y, max(0.5, wide - 2 * gap), high, svg.theme.colour(bar.series),
            rx=min(3, wide / 6))  # fmt: skip


def _lying(
    svg: Svg, data: ChartData, area: Area, bars: list[Bar], names: list[str], slots: int
) -> None:
    longest = min(area.width * 0.4, max(width(name, SMALL) for name in names))
    if data.x_title:
        svg.text(area.left, area.top + SMALL, data.x_title, size=SMALL, colour=svg.theme.soft)
        area.top += SMALL + 8
    area.left, area.bottom = area.left + longest + 10, area.bottom - SMALL * 1.8
    scale = _scale(bars, int(area.width / 90))
    room = max(width(short(bar.value), SMALL) for bar in bars) + 8
    area.right -= 0 if data.stacked else min(room, area.width * 0.2)
    step = area.height / len(names)
    for value, text in scale.ticks:
        x = scale.at(value, area.left, area.right)
        svg.line(x, area.top, x, area.bottom, svg.theme.line, stroke_width=1)
        svg.text(
            x, area.bottom + SMALL + 4, text, size=SMALL, colour=svg.theme.soft, anchor="middle"
        )
    high, every = step * FILLED / slots, max(1, -int(-(SMALL * 1.2) // step))
    for index, name in enumerate(names):
        if index % every == 0:
            svg.text(area.left - 8, area.top + step * (index + 0.5) + 4,
                     shortened(name, SMALL, longest), size=SMALL, colour=svg.theme.soft,
                     anchor="end")  # fmt: skip
    for bar in bars:
        y = area.top + step * (bar.label + (1 - FILLED) / 2) + high * bar.slot
        left, right = (scale.at(v, area.left, area.right) for v in (bar.low, bar.high))
        gap = min(1.5, high * 0.08)
        svg.box(left, y + gap, right - left, max(0.5, high - 2 * gap), svg.theme.colour(bar.series),
                rx=min(3, high / 6))  # fmt: skip
        if not data.stacked and high >= SMALL:
            svg.text(
                right + 5, y + high / 2 + 4, short(bar.value), size=SMALL, colour=svg.theme.soft
            )
    zero = scale.at(0, area.left, area.right)
    svg.line(zero, area.top, zero, area.bottom, svg.theme.soft, stroke_width=1)
