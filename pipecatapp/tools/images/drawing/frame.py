"""The parts that all charts have: heading, legend, axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pipecatapp.tools.images.drawing.data import ChartData
from pipecatapp.tools.images.drawing.fonts import shortened, width, wrapped
from pipecatapp.tools.images.drawing.scale import Scale
from pipecatapp.tools.images.drawing.svg import Svg
from pipecatapp.tools.images.drawing.theme import LABEL, PADDING, SMALL, SUBTITLE, TITLE

GAP: Final = 10.0
TICK_GAP: Final = 8.0
SWATCH: Final = 12.0
STEEP: Final = -40.0
"""Degrees of labels that do not fit side by side."""
LONGEST_LABEL: Final = 150.0
SINE, COSINE = 0.643, 0.766


@dataclass
class Area:
    """The part of a drawing in pixels that is still free."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


def heading(svg: Svg, title: str, subtitle: str, area: Area) -> None:
    """Write title and subtitle at the top of the area, which gets smaller."""
    y = area.top
    for line in wrapped(title, TITLE, area.width, 2, bold=True) if title else ():
        svg.text(area.left, y + TITLE, line, size=TITLE, bold=True)
        y += TITLE * 1.3
    for line in wrapped(subtitle, SUBTITLE, area.width, 2) if subtitle else ():
        svg.text(area.left, y + SUBTITLE, line, size=SUBTITLE, colour=svg.theme.soft)
        y += SUBTITLE * 1.4
    area.top = y + (GAP if y > area.top else 0)


def legend(svg: Svg, names: Sequence[str], area: Area) -> None:
    """Write the names of the series with their colours, in as many lines as they need."""
    x, y = area.left, area.top
    for index, name in enumerate(names):
        text = shortened(name, LABEL, area.width - 2 * SWATCH)
        wide = SWATCH + 6 + width(text, LABEL) + 18
        if x > area.left and x + wide - 18 > area.right:
            x, y = area.left, y + 20
        svg.box(x, y + 1, SWATCH, SWATCH, svg.theme.colour(index), rx=3)
        svg.text(x + SWATCH + 6, y + 11.5, text, colour=svg.theme.soft)
        x += wide
    if names:
        area.top = y + 20 + GAP


def begun(data: ChartData, names: Sequence[str], theme_svg: Svg) -> Area:
    """Draw heading and legend; returns the area that is left."""
    area = Area(PADDING, PADDING, data.width - PADDING, data.height - PADDING)
    heading(theme_svg, data.title, data.subtitle, area)
    legend(theme_svg, names, area)
    return area


def value_axis(svg: Svg, scale: Scale, area: Area, title: str) -> None:
    """Draw the vertical axis with its grid; its labels take their room from the area."""
    if title:
        svg.text(area.left, area.top + SMALL, title, size=SMALL, colour=svg.theme.soft)
        area.top += SMALL + GAP
    area.left += max(width(text, SMALL) for _, text in scale.ticks) + TICK_GAP
    area.top += SMALL / 2
    for value, text in scale.ticks:
        y = scale.at(value, area.bottom, area.top)
        svg.line(area.left, y, area.right, y, svg.theme.line, stroke_width=1)
        svg.text(area.left - TICK_GAP, y + 4, text, size=SMALL, colour=svg.theme.soft, anchor="end")


@dataclass
class Labels:
    """How the labels below a chart are written, so that they do not overlap."""

    texts: list[str]
    steep: bool
    every: int
    height: float


def labels_for(texts: Sequence[str], room: float, *, first: float) -> Labels:
    """Choose flat labels, steep ones, or only some of them.

    `room` are the pixels for each label, `first` those to the left of the first one.
    """
    wide = max((width(text, SMALL) for text in texts), default=0)
    if wide + 8 <= room:
        return Labels(list(texts), steep=False, every=1, height=SMALL * 1.5)
    if room >= SMALL * 1.3 and wide > room:
        rooms = [(first + room * (n + 0.5)) / COSINE for n in range(len(texts))]
        short = [
            shortened(text, SMALL, min(LONGEST_LABEL, one))
            for text, one in zip(texts, rooms, strict=True)
        ]
        high = max(width(text, SMALL) for text in short) * SINE + SMALL
        return Labels(short, steep=True, every=1, height=high)
    fits = (n for n in range(1, len(texts)) if room * n >= min(wide, 90) + 10)
    every = next(fits, max(1, len(texts)))
    short = [shortened(text, SMALL, room * every - 8) for text in texts]
    return Labels(short, steep=False, every=every, height=SMALL * 1.5)


def write_labels(svg: Svg, labels: Labels, places: Sequence[float], y: float) -> None:
    """Write the labels below their places."""
    for index, (text, x) in enumerate(zip(labels.texts, places, strict=True)):
        if index % labels.every:
            continue
        if labels.steep:
            svg.text(
                x + 4, y + SMALL, text,
                size=SMALL, colour=svg.theme.soft, anchor="end", turn=STEEP,
            )  # fmt: skip
        else:
            svg.text(x, y + SMALL + 4, text, size=SMALL, colour=svg.theme.soft, anchor="middle")


def number_axis(svg: Svg, scale: Scale, area: Area) -> None:
    """Write the ticks of a horizontal axis of numbers or times, without those that overlap."""
    end = float("-inf")
    for value, text in scale.ticks:
        x, wide = scale.at(value, area.left, area.right), width(text, SMALL)
        svg.line(x, area.bottom, x, area.bottom + 4, svg.theme.line, stroke_width=1)
        begin = min(max(x - wide / 2, 0), svg.width - wide)
        if begin > end + 6:
            svg.text(begin, area.bottom + SMALL + 6, text, size=SMALL, colour=svg.theme.soft)
            end = begin + wide


def axis_title(svg: Svg, area: Area, title: str) -> None:
    """Write the title of the horizontal axis at the bottom; it takes its room from the area."""
    if title:
        text = shortened(title, SMALL, area.width)
        x = (area.left + area.right) / 2
        svg.text(x, area.bottom, text, size=SMALL, colour=svg.theme.soft, anchor="middle")
        area.bottom -= SMALL + GAP
