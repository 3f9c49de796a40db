"""Draw timelines: a bar for each task, a diamond for each milestone."""

from typing import Final

from pipecatapp.tools.images.drawing.data import WrongData
from pipecatapp.tools.images.drawing.diagram_data import DiagramData, Task
from pipecatapp.tools.images.drawing.fonts import shortened, width
from pipecatapp.tools.images.drawing.frame import Area, heading, legend
from pipecatapp.tools.images.drawing.scale import DAY, Scale, date_of, time_scale
from pipecatapp.tools.images.drawing.svg import Svg, number
from pipecatapp.tools.images.drawing.theme import LABEL, PADDING, SMALL, THEMES

WIDTH: Final = 1000.0
ROW: Final = 32.0
BAR: Final = 18.0
LONGEST: Final = 280.0
"""Pixels of the names of tasks."""


def draw_timeline(data: DiagramData) -> Svg:
    """Draw a timeline. Raises `WrongData`."""
    if not data.tasks:
        raise WrongData("There is nothing to draw: set `tasks`, each with `label` and `start`.")
    spans = [_span(task) for task in data.tasks]
    groups = list(dict.fromkeys(task.group for task in data.tasks if task.group))
    svg = Svg(WIDTH, 0, THEMES[data.theme])
    area = Area(PADDING, PADDING, WIDTH - PADDING, 0)
    heading(svg, data.title, data.subtitle, area)
    legend(svg, groups, area)
    names = min(LONGEST, max(width(task.label, LABEL) for task in data.tasks)) + 16
    area.left += names
    area.top += SMALL * 2
    area.bottom = area.top + ROW * len(data.tasks)
    svg.height = area.bottom + PADDING
    low, high = min(begin for begin, _ in spans), max(end for _, end in spans)
    room = (high - low) * 0.02
    scale = time_scale(low - room, high + room, 8)
    _grid(svg, scale, area)
    for index, (task, span) in enumerate(zip(data.tasks, spans, strict=True)):
        y = area.top + ROW * (index + 0.5)
        name = shortened(task.label, LABEL, names - 16)
        svg.text(PADDING, y + 5, name)
        colour = svg.theme.colour(groups.index(task.group) if task.group else 0)
        begin, end = (scale.at(one, area.left, area.right) for one in span)
        if task.end is None:
            _diamond(svg, begin, y, colour)
        else:
            svg.box(begin, y - BAR / 2, max(3, end - begin), BAR, colour, rx=4)
    return svg


def _span(task: Task) -> tuple[float, float]:
    """Return begin and end as POSIX times; an end that is a day includes that day."""
    begin, end = date_of(task.start), date_of(task.end) if task.end is not None else None
    if begin is None or (task.end is not None and end is None):
        wrong = task.start if begin is None else task.end
        raise WrongData(
            f"{task.label!r}: {wrong!r} is not a date: write 2026-03-29 or 2026-03-29T14:00."
        )
    if end is None:
        return begin.timestamp(), begin.timestamp()
    last = end.timestamp() + (DAY if len(task.end or "") == len("2026-03-29") else 0)
    if last < begin.timestamp():
        raise WrongData(f"{task.label!r} ends before it starts: exchange `start` and `end`.")
    return begin.timestamp(), last


def _grid(svg: Svg, scale: Scale, area: Area) -> None:
    for index in range(round((area.bottom - area.top) / ROW)):
        if index % 2 == 0:
            svg.box(PADDING / 2, area.top + ROW * index, svg.width - PADDING, ROW, svg.theme.fill,
                    rx=4)  # fmt: skip
    for value, text in scale.ticks:
        x = scale.at(value, area.left, area.right)
        svg.line(x, area.top - 4, x, area.bottom, svg.theme.line, stroke_width=1)
        half = width(text, SMALL) / 2
        place = min(x, svg.width - half - 4)
        svg.text(place, area.top - 10, text, size=SMALL, colour=svg.theme.soft, anchor="middle")


def _diamond(svg: Svg, x: float, y: float, colour: str) -> None:
    half = BAR / 2
    points = ((x, y - half), (x + half, y), (x, y + half), (x - half, y))
    svg.add("polygon", points=" ".join(f"{number(a)},{number(b)}" for a, b in points), fill=colour)
