"""Draw pie charts."""

import math
from typing import Final

from pipecatapp.tools.images.drawing.data import ChartData, WrongData
from pipecatapp.tools.images.drawing.fonts import shortened, width
from pipecatapp.tools.images.drawing.frame import Area, begun
from pipecatapp.tools.images.drawing.scale import short
from pipecatapp.tools.images.drawing.svg import Svg, number
from pipecatapp.tools.images.drawing.theme import LABEL, SMALL

MOST: Final = 20
TWO_LINES: Final = 38.0
"""Pixels for each slice from which on its name and its value have a line each."""
WRITTEN: Final = 0.05
"""Smallest part of the circle that has its percentage written on it."""


def draw_pie(svg: Svg, data: ChartData) -> None:
    """Draw a pie chart with its legend at the right. Raises `WrongData`."""
    if len(data.series) != 1:
        raise WrongData("A pie shows one series; draw bars to compare several.")
    values = [value or 0 for value in data.series[0].values]
    names = [str(label) for label in data.labels] or [str(n + 1) for n in range(len(values))]
    if len(names) != len(values):
        raise WrongData(f"There are {len(values)} values for {len(names)} labels: give one each.")
    if min(values) < 0 or sum(values) <= 0:
        raise WrongData("A pie shows parts of a whole: its values must be positive.")
    if len(values) > MOST:
        raise WrongData(f"A pie with more than {MOST} slices cannot be read: draw bars instead.")
    area = begun(data, [], svg)
    total = sum(values)
    rows = [f"{short(value)}  ·  {value / total:.1%}" for value in values]
    room = area.width * 0.45
    wide = max(max(width(n, LABEL, bold=True) for n in names), max(width(r, SMALL) for r in rows))
    if area.height / len(names) < TWO_LINES:
        wide = max(width(f"{n}  {r}", SMALL) for n, r in zip(names, rows, strict=True))
    legend = min(room, wide) + 30
    radius = min(area.height / 2, (area.width - legend - 24) / 2)
    if radius < 30:
        raise WrongData("The picture is too small for a pie: set a larger `width` and `height`.")
    x = area.left + max(radius, (area.width - legend) / 2)
    _slices(svg, values, total, (x, (area.top + area.bottom) / 2), radius)
    _names(svg, names, rows, Area(area.right - legend, area.top, area.right, area.bottom))


def _slices(
    svg: Svg, values: list[float], total: float, centre: tuple[float, float], radius: float
) -> None:
    at = 0.0
    for index, value in enumerate(values):
        end = at + value / total
        if value == total:
            svg.add("circle", cx=centre[0], cy=centre[1], r=radius, fill=svg.theme.colour(index))
        elif value:
            svg.add(
                "path",
                d=_slice(centre, radius, at, end),
                fill=svg.theme.colour(index),
                stroke=svg.theme.paper,
                stroke_width=2,
                stroke_linejoin="round",
            )
        if value / total >= WRITTEN:
            x, y = _on_circle(centre, radius * 0.68, (at + end) / 2)
            text = f"{value / total:.0%}"
            svg.text(x, y + 5, text, colour=svg.theme.paper, anchor="middle", bold=True)
        at = end


def _slice(centre: tuple[float, float], radius: float, begin: float, end: float) -> str:
    (x1, y1), (x2, y2) = (_on_circle(centre, radius, part) for part in (begin, end))
    large = int(end - begin > 0.5)
    arc = f"A{number(radius)} {number(radius)} 0 {large} 1 {number(x2)} {number(y2)}"
    return f"M{number(centre[0])} {number(centre[1])}L{number(x1)} {number(y1)}{arc}Z"


def _on_circle(centre: tuple[float, float], radius: float, part: float) -> tuple[float, float]:
    angle = part * math.tau - math.pi / 2
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)


def _names(svg: Svg, names: list[str], rows: list[str], area: Area) -> None:
    two = area.height / len(names) >= TWO_LINES
    step = min(44.0 if two else 24.0, area.height / len(names))
    y = (area.top + area.bottom) / 2 - step * len(names) / 2
    for index, (name, row) in enumerate(zip(names, rows, strict=True)):
        svg.box(area.left, y + 4, 14, 14, svg.theme.colour(index), rx=3)
        room = area.width - 24
        if two:
            svg.text(area.left + 24, y + 15, shortened(name, LABEL, room, bold=True), bold=True)
            svg.text(area.left + 24, y + 32, shortened(row, SMALL, room), size=SMALL,
                     colour=svg.theme.soft)  # fmt: skip
        else:
            svg.text(area.left + 24, y + 15, shortened(f"{name}  {row}", SMALL, room), size=SMALL)
        y += step
