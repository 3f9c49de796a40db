"""Draw tables."""

from collections.abc import Sequence
from typing import Final

from pipecatapp.tools.images.drawing.data import WrongData
from pipecatapp.tools.images.drawing.diagram_data import Cell, DiagramData
from pipecatapp.tools.images.drawing.fonts import width, wrapped
from pipecatapp.tools.images.drawing.frame import Area, heading
from pipecatapp.tools.images.drawing.svg import Svg
from pipecatapp.tools.images.drawing.theme import LABEL, PADDING, THEMES

WIDEST: Final = 320.0
"""Pixels of a column; longer texts have several lines."""
SIDE, LINE, SPACE = 12.0, 18.0, 14.0
"""Pixels beside a text, of a line, and above and below the lines of a row."""
MOST_CELLS: Final = 5000
LEAST: Final = 360.0


def draw_table(data: DiagramData) -> Svg:
    """Draw a table. Raises `WrongData`."""
    count = max([len(data.columns), *map(len, data.rows)])
    if not count:
        raise WrongData("There is nothing to draw: set `columns` and `rows`.")
    if count * len(data.rows) > MOST_CELLS:
        raise WrongData(f"A table with more than {MOST_CELLS:,} cells cannot be read: shorten it.")
    wrong = next((n for n, row in enumerate(data.rows, 1) if len(row) != count), None)
    if wrong is not None or len(data.columns) not in (0, count):
        place = f"Row {wrong}" if wrong is not None else "`columns`"
        raise WrongData(f"{place} does not have {count} cells as the longest row: add empty ones.")
    cells = [[_written(cell) for cell in row] for row in data.rows]
    right = [_is_numeric([row[n] for row in data.rows]) for n in range(count)]
    widths = [
        min(
            WIDEST,
            max(
                [width(row[n], LABEL) for row in cells]
                + [width(head, LABEL, bold=True) for head in data.columns[n : n + 1]]
            ),
        )
        + 2 * SIDE
        for n in range(count)
    ]
    full = max(LEAST, sum(widths)) + 2 * PADDING
    svg = Svg(full, 0, THEMES[data.theme])
    area = Area(PADDING, PADDING, full - PADDING, 0)
    heading(svg, data.title, data.subtitle, area)
    if data.columns:
        _row(svg, area, data.columns, widths, right, head=True)
        svg.line(area.left, area.top, area.left + sum(widths), area.top, svg.theme.soft,
                 stroke_width=1.5)  # fmt: skip
    for index, row in enumerate(cells):
        _row(svg, area, row, widths, right, shaded=index % 2 == 1)
    svg.height = area.top + PADDING
    return svg


def _written(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:,.10g}" if cell % 1 else f"{cell:,.0f}"
    return cell or ""


def _is_numeric(cells: Sequence[Cell]) -> bool:
    numbers = [isinstance(cell, float) for cell in cells if cell not in (None, "")]
    return bool(numbers) and all(numbers)


def _row(
    svg: Svg,
    area: Area,
    texts: Sequence[str],
    widths: Sequence[float],
    right: Sequence[bool],
    *,
    head: bool = False,
    shaded: bool = False,
) -> None:
    """Draw a row at the top of the area, which gets smaller."""
    lines = [
        wrapped(text, LABEL, wide - 2 * SIDE + 0.01, 6, bold=head)
        for text, wide in zip(texts, widths, strict=True)
    ]
    high = max(map(len, lines)) * LINE + SPACE
    if shaded:
        svg.box(area.left, area.top, sum(widths), high, svg.theme.fill)
    x = area.left
    for cell, wide, at_right in zip(lines, widths, right, strict=True):
        for index, line in enumerate(cell):
            y = area.top + SPACE / 2 + index * LINE + LABEL
            place, anchor = (x + wide - SIDE, "end") if at_right else (x + SIDE, "start")
            svg.text(place, y, line, anchor=anchor, bold=head)
        x += wide
    area.top += high
