"""Series of a chart from a CSV file of the workspace."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from math import isfinite
from typing import Final, Literal

from pipecatapp.tools.images.drawing.data import MOST_VALUES, ChartData, Series, WrongData
from pipecatapp.tools.images.drawing.scale import date_of

Every = Literal["hour", "day", "week", "month", "year"]
Combine = Literal["sum", "mean", "min", "max", "last"]
COMBINED: Final[Mapping[Combine, Callable[[Sequence[float]], float]]] = {
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "min": min,
    "max": max,
    "last": lambda values: values[-1],
}
DELIMITERS: Final = ",;\t|"
MOST_SERIES: Final = 20


def with_file(
    data: ChartData, text: str, x: str, y: Sequence[str], every: Every | None, combine: Combine
) -> ChartData:
    """Return the chart with labels from the column `x` and a series for each column of `y`.

    Without `x` the first column is used, without `y` all other columns that have numbers. `every`
    puts the values of each hour, day, week, month or year together. Raises `WrongData`.
    """
    columns, rows = _read(text)
    x = x or columns[0]
    if x in y:
        raise WrongData(f"The column {x!r} has the labels: name another one in `y`.")
    for name in (x, *y):
        if name not in columns:
            raise WrongData(f"The file has no column {name!r}. It has: {', '.join(columns)}.")
    texts = {name: [row[n].strip() for row in rows] for n, name in enumerate(columns)}
    labels, series = texts.pop(x), _numbers(texts, y)
    if every is not None:
        labels, series = _combined(labels, series, every, COMBINED[combine])
    values = [_number(one) for one in labels]
    found: list[float | str] = [value for value in values if value is not None]
    found = found if len(found) == len(labels) else list(labels)
    if len(series) > MOST_SERIES or len(found) > MOST_VALUES:
        raise WrongData("The file has too much to draw: name the columns, or use `every`.")
    drawn = [Series(name=name[:200], values=row) for name, row in series.items()]
    return data.model_copy(update={"labels": found, "series": drawn})


def _numbers(texts: Mapping[str, Sequence[str]], y: Sequence[str]) -> dict[str, list[float | None]]:
    """Return the columns `y`, or all that have numbers. Raises `WrongData`."""
    numbers = {name: [_number(one) for one in texts[name]] for name in y or texts}
    having = {name: row for name, row in numbers.items() if any(v is not None for v in row)}
    for name in y:
        if name not in having:
            raise WrongData(f"The column {name!r} has no numbers.")
    if not having:
        raise WrongData("The file has no column with numbers.")
    return having


def _read(text: str) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the rows; short rows are filled up."""
    head = text.lstrip("\ufeff").split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=head.count)
    rows = [
        row for row in csv.reader(io.StringIO(text.lstrip("\ufeff")), delimiter=delimiter) if row
    ]
    if len(rows) < 2:
        raise WrongData("The file needs a line with the names of the columns and lines of values.")
    columns = [name.strip() for name in rows[0]]
    return columns, [(row + [""] * len(columns))[: len(columns)] for row in rows[1:]]


def _number(text: str) -> float | None:
    """Read a number with a decimal point or comma; None for other texts."""
    plain = text.replace("\u00a0", "").replace(" ", "")
    if "," in plain:
        last = max(plain.rfind("."), plain.rfind(","))
        thousands = "." if plain[last] == "," else ","
        plain = plain.replace(thousands, "").replace(",", ".")
    try:
        found = float(plain)
    except ValueError:
        return None
    return found if isfinite(found) else None


def _combined(
    labels: Sequence[str],
    series: Mapping[str, list[float | None]],
    every: Every,
    combine: Callable[[Sequence[float]], float],
) -> tuple[list[str], dict[str, list[float | None]]]:
    places = [_begin(label, every) for label in labels]
    keys = sorted(set(places))
    found: dict[str, list[float | None]] = {}
    for name, row in series.items():
        groups: dict[str, list[float]] = {}
        for place, value in zip(places, row, strict=True):
            if value is not None:
                groups.setdefault(place, []).append(value)
        found[name] = [combine(groups[key]) if key in groups else None for key in keys]
    return keys, found


def _begin(label: str, every: Every) -> str:
    """Return the beginning of the hour, day, week (Monday), month or year of a date."""
    date = date_of(label.replace("/", "-"))
    if date is None:
        raise WrongData(
            f"{label[:60]!r} is not a date, which `every` needs: write dates as 2026-03-29 or"
            " 2026-03-29T14:00."
        )
    if every == "week":
        date -= timedelta(days=date.weekday())
    length = {"hour": 13, "day": 10, "week": 10, "month": 7, "year": 4}[every]
    text = date.isoformat()[:length]
    return f"{text}:00" if every == "hour" else text
