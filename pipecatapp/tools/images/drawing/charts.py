"""Draw charts."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final

from pipecatapp.tools.images.drawing.bars import draw_bars
from pipecatapp.tools.images.drawing.data import ChartData, ChartKind, Series, WrongData
from pipecatapp.tools.images.drawing.frame import (
    Area,
    axis_title,
    begun,
    labels_for,
    number_axis,
    value_axis,
    write_labels,
)
from pipecatapp.tools.images.drawing.pie import draw_pie
from pipecatapp.tools.images.drawing.scale import (
    Scale,
    date_of,
    edges,
    number_scale,
    short,
    time_scale,
)
from pipecatapp.tools.images.drawing.svg import Svg, path_of
from pipecatapp.tools.images.drawing.theme import SMALL, THEMES

Points = list[list[tuple[float, float]]]
"""Parts of a line between its gaps."""
DENSE: Final = 2000
"""Points of a line from which on those of one pixel are put together."""
MOST_DOTS: Final = 20_000
MARKS: Final = 60
"""A line with at most this many values shows each of them as a dot."""


def draw_chart(data: ChartData) -> Svg:
    """Draw a chart. Raises `WrongData`."""
    svg = Svg(data.width, data.height, THEMES[data.theme])
    if data.kind == "scatter" and sum(len(one.values) for one in data.series) > MOST_DOTS:
        raise WrongData(f"More than {MOST_DOTS:,} dots cannot be read: draw a line or a histogram.")
    if not any(value is not None for one in data.series for value in one.values):
        raise WrongData("There are no values: set `series`, each with `values`.")
    DRAWN[data.kind](svg, data)
    return svg


def _draw_points(svg: Svg, data: ChartData) -> None:
    """Draw a line, area or scatter chart."""
    rows, x_scale_of, names = _places(data)
    stacked = _stacked(rows) if data.kind == "area" and data.stacked else rows
    area = begun(data, [one.name for one in data.series] if len(data.series) > 1 else [], svg)
    axis_title(svg, area, data.x_title)
    labels = None
    if names:
        labels = labels_for(names, area.width / max(1, len(names) - 1) * 0.95, first=30)
    area.bottom -= labels.height + 4 if labels else SMALL * 1.8
    scale, zero = _value_scale(data, stacked, area)
    value_axis(svg, scale, area, data.y_title)
    area.left, area.right = area.left + 8, area.right - 16
    x_scale = x_scale_of(max(2, int(area.width / 90)))
    if labels:
        places = [x_scale.at(n, area.left, area.right) for n in range(len(names))]
        write_labels(svg, labels, places, area.bottom)
    else:
        number_axis(svg, x_scale, area)
    base = scale.at(0, area.bottom, area.top) if zero else area.bottom
    below: list[float] | None = None
    for index, row in enumerate(stacked):
        points = _points(
            row,
            lambda x: x_scale.at(x, area.left, area.right),
            lambda y: scale.at(y, area.bottom, area.top),
        )
        if data.kind == "area":
            _fill(svg, points, below if data.stacked else None, base, svg.theme.colour(index))
            below = [y for part in points for _, y in part]
        _line(svg, data.kind, points, svg.theme.colour(index))


def _value_scale(data: ChartData, rows: list["Row"], area: Area) -> tuple[Scale, bool]:
    """Return the vertical scale, and whether it has zero."""
    values = [value for row in rows for _, value in row if value is not None]
    low, high = min(values), max(values)
    zero = data.kind == "area" or (data.kind == "line" and 0 <= low < high * 0.5)
    return number_scale(low, high, max(3, int(area.height / 48)), zero=zero), zero


def _points(
    row: Sequence[tuple[float, float | None]],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> Points:
    parts: Points = [[]]
    for at, value in row:
        if value is not None:
            parts[-1].append((x(at), y(value)))
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part]


def _thinned(part: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return a line with at most four points for each pixel: its ends and its extremes there."""
    if len(part) <= DENSE:
        return part
    found: list[tuple[float, float]] = []
    for _, group in groupby(part, key=lambda point: int(point[0])):
        points = list(group)
        low, high = min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])
        found.extend(dict.fromkeys(sorted((points[0], low, high, points[-1]))))
    return found


def _line(svg: Svg, kind: ChartKind, parts: Points, colour: str) -> None:
    count = sum(map(len, parts))
    if kind != "scatter":
        for part in map(_thinned, parts):
            svg.path(
                part, colour, stroke_width=2.5, stroke_linejoin="round", stroke_linecap="round"
            )
    for part in parts:
        for x, y in part if kind == "scatter" or count <= MARKS or len(part) == 1 else ():
            opacity = 0.75 if kind == "scatter" else 1
            radius = 4 if kind == "scatter" else 3.2
            svg.add("circle", cx=x, cy=y, r=radius, fill=colour, fill_opacity=opacity,
                    stroke=svg.theme.paper, stroke_width=1)  # fmt: skip


def _fill(svg: Svg, parts: Points, below: list[float] | None, base: float, colour: str) -> None:
    for part in parts:
        floor = [(x, base) for x, _ in part]
        if below is not None:
            floor = [(x, y) for (x, _), y in zip(part, below, strict=True)]
        svg.add("path", d=path_of([*part, *reversed(floor)]) + "Z", fill=colour,
                fill_opacity=0.55 if below is not None else 0.25)  # fmt: skip


Row = list[tuple[float, float | None]]


def _places(data: ChartData) -> tuple[list[Row], Callable[[int], Scale], list[str]]:
    """Return the points of each series, the scale for a number of ticks, and the names of places.

    Raises `WrongData`.
    """
    given = [_x_of(one, data) for one in data.series]
    flat = [x for row in given for x in row]
    if flat and all(isinstance(x, float) for x in flat):
        numbers = [[float(x) for x in row] for row in given]
        return _rows(data, numbers), _numbers(numbers), []
    dates = [[date_of(x) for x in row] for row in given]
    if flat and all(date is not None for row in dates for date in row):
        times = [[date.timestamp() for date in row if date] for row in dates]
        return _rows(data, times), _times(times), []
    if data.kind == "scatter":
        raise WrongData("A scatter chart needs numbers or dates in `labels` or in `x`.")
    if any(one.x is not None for one in data.series):
        raise WrongData("`x` of a series has to be numbers or dates; names are set as `labels`.")
    count = max(len(one.values) for one in data.series)
    names = [str(label) for label in data.labels] or [str(n + 1) for n in range(count)]
    places = [[float(n) for n in range(len(one.values))] for one in data.series]
    most = max(1.0, count - 1.0)
    return _rows(data, places), lambda _most: Scale(0, most, ()), names


def _numbers(rows: list[list[float]]) -> Callable[[int], Scale]:
    low, high = _ends(rows)
    return lambda most: number_scale(low, high, most, zero=False)


def _times(rows: list[list[float]]) -> Callable[[int], Scale]:
    low, high = _ends(rows)
    return lambda most: time_scale(low, high, most)


def _ends(rows: list[list[float]]) -> tuple[float, float]:
    flat = [x for row in rows for x in row]
    return min(flat), max(flat)


def _x_of(series: Series, data: ChartData) -> list[float | str]:
    given = data.labels if series.x is None else series.x
    has_x = any(one.x is not None for one in data.series)
    if (given or has_x) and len(given) != len(series.values):
        name = series.name or "The series"
        raise WrongData(
            f"{name} has {len(series.values)} values for {len(given)} labels: give one label for"
            " each value."
        )
    return [float(x) if isinstance(x, int | float) else x for x in given]


def _rows(data: ChartData, places: list[list[float]]) -> list[Row]:
    rows = [
        list(zip(xs, one.values, strict=True)) for xs, one in zip(places, data.series, strict=True)
    ]
    return (
        rows
        if data.kind == "scatter"
        else [sorted(row, key=lambda point: point[0]) for row in rows]
    )


def _stacked(rows: list[Row]) -> list[Row]:
    """Add up the series at each place. Raises `WrongData` if they have different places."""
    if any([x for x, _ in row] != [x for x, _ in rows[0]] for row in rows):
        raise WrongData("Areas on top of each other need the same labels for each series.")
    sums = [0.0] * len(rows[0])
    found: list[Row] = []
    for row in rows:
        sums = [total + (value or 0) for total, (_, value) in zip(sums, row, strict=True)]
        found.append([(x, total) for (x, _), total in zip(row, sums, strict=True)])
    return found


def _draw_histogram(svg: Svg, data: ChartData) -> None:
    values = [value for one in data.series for value in one.values if value is not None]
    bounds = edges(values, data.bins)
    counts = [0] * (len(bounds) - 1)
    step = bounds[1] - bounds[0]
    for value in values:
        counts[min(len(counts) - 1, max(0, int((value - bounds[0]) / step + 1e-9)))] += 1
    area = begun(data, [], svg)
    axis_title(svg, area, data.x_title)
    area.bottom -= SMALL * 1.8
    scale = number_scale(0, max(counts), max(3, int(area.height / 48)), zero=True)
    value_axis(svg, scale, area, data.y_title)
    x_scale = number_scale(bounds[0], bounds[-1], max(2, int(area.width / 70)), zero=False)
    fit = Scale(
        bounds[0], bounds[-1], tuple(t for t in x_scale.ticks if bounds[0] <= t[0] <= bounds[-1])
    )
    wide = fit.at(bounds[1], area.left, area.right) - area.left
    for (low, _), count in zip(pairwise(bounds), counts, strict=True):
        x, y = fit.at(low, area.left, area.right), scale.at(count, area.bottom, area.top)
        if count:
            svg.box(x + 0.75, y, max(1, wide - 1.5), area.bottom - y, svg.theme.colour(0), rx=2)
        if count and wide > 34:
            svg.text(
                x + wide / 2,
                y - 5,
                short(count),
                size=SMALL,
                colour=svg.theme.soft,
                anchor="middle",
            )
    number_axis(svg, fit, area)


DRAWN: Final[Mapping[ChartKind, Callable[[Svg, ChartData], None]]] = {
    "bar": draw_bars,
    "line": _draw_points,
    "area": _draw_points,
    "scatter": _draw_points,
    "pie": draw_pie,
    "histogram": _draw_histogram,
}
