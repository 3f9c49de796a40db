"""Series of a chart from a CSV file."""

from typing import Any

import pytest

from pipecatapp.tools.images.csv_file import with_file
from pipecatapp.tools.images.drawing.data import ChartData, WrongData

METER = "day,kWh,note\n2026-03-02,5.5,\n2026-03-03,6,x\n2026-03-09,7.25,\n"


def chart(text: str, **fields: Any) -> ChartData:
    """A bar chart of a file."""
    named = {"x": "", "y": [], "every": None, "combine": "sum", **fields}
    return with_file(ChartData(kind="bar"), text, **named)


def test_columns_become_labels_and_series() -> None:
    """Columns without numbers are left out."""
    found = chart(METER)
    assert found.labels == ["2026-03-02", "2026-03-03", "2026-03-09"]
    assert [(one.name, one.values) for one in found.series] == [("kWh", [5.5, 6, 7.25])]


def test_values_of_a_week_are_combined() -> None:
    """A meter writes each day; a person asks for weeks, which begin on Monday."""
    assert chart(METER, every="week").labels == ["2026-03-02", "2026-03-09"]
    assert chart(METER, every="week").series[0].values == [11.5, 7.25]
    assert chart(METER, every="month", combine="max").series[0].values == [7.25]
    assert chart(METER, every="year", combine="mean").series[0].values == [6.25]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("t;v\n1;1.234,5\n2;-3,25\n", [1234.5, -3.25]),
        ('t,v\n1,"1,234.5"\n2,n/a\n', [1234.5, None]),
        ("\ufefft\tv\n1\t1e3\n2\t\n", [1000, None]),
        ("t,v\n1,inf\n2,5\n", [None, 5]),
    ],
)
def test_numbers_of_other_countries_are_read(text: str, values: list[float | None]) -> None:
    """Spreadsheets write decimal commas with semicolons."""
    assert chart(text).series[0].values == values
    assert chart(text).labels == [1, 2]


@pytest.mark.parametrize(
    ("text", "fields", "reason"),
    [
        ("", {}, "needs a line"),
        ("a,b\n", {}, "needs a line"),
        (METER, {"x": "week"}, "no column 'week'. It has: day, kWh, note"),
        (METER, {"y": ["watt"]}, "no column 'watt'"),
        (METER, {"y": ["note"]}, "'note' has no numbers"),
        (METER, {"y": ["day"]}, "has the labels"),
        ("a,b\nx,y\n", {}, "no column with numbers"),
        ("a,b\nx,1\n", {"every": "day"}, "'x' is not a date"),
    ],
)
def test_file_that_does_not_fit_is_refused(text: str, fields: dict[str, Any], reason: str) -> None:
    """The sentence names the columns that there are."""
    with pytest.raises(WrongData, match=reason):
        chart(text, **fields)
