"""Spreadsheets and CSV files, as Markdown tables."""

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import openpyxl

from pipecatapp.tools.documents.jobs import tables
from pipecatapp.tools.documents.jobs.failed import JobFailed

MOST_TEXT: Final = 8 << 20
"""Characters that are converted; a longer document is cut there."""
DELIMITERS: Final = ",;\t|"
SAMPLE: Final = 16_384


def read_xlsx(path: str) -> tuple[str, list[str]]:
    """Return all sheets, each below its name as a heading, and notes about them.

    A cell has the value that the spreadsheet program stored; a formula without one is shown.
    """
    # openpyxl refuses a path without the ending of a spreadsheet, so it gets open files.
    with Path(path).open("rb") as first, Path(path).open("rb") as second:
        try:
            values = openpyxl.load_workbook(first, read_only=True, data_only=True)
            formulas = openpyxl.load_workbook(second, read_only=True)
        except (KeyError, ValueError, TypeError, BadZipFile) as error:
            raise JobFailed(f"the file is damaged ({error})") from error
        return _sheets(values, formulas)


def _sheets(values: Any, formulas: Any) -> tuple[str, list[str]]:
    lines: list[str] = []
    room = MOST_TEXT
    for sheet in values.worksheets:
        lines += ["", f"## {tables.cell(sheet.title)}", ""]
        rows = _filled(_cells(sheet, formulas[sheet.title]))
        for line in tables.markdown(rows):
            room -= len(line) + 1
            if room < 0:
                return "\n".join(lines).strip(), [_cut()]
            lines.append(line)
    return "\n".join(lines).strip(), []


def _cells(values: Any, formulas: Any) -> Iterator[list[Any]]:
    pairs = zip(
        values.iter_rows(values_only=True), formulas.iter_rows(values_only=True), strict=False
    )
    for shown, written in pairs:
        cells = zip(shown, written, strict=False)
        yield [_text(formula if value is None else value) for value, formula in cells]


def _text(value: Any) -> Any:
    """Write dates without a time as dates."""
    if isinstance(value, datetime) and value.time() == time():
        return value.date()
    return value


def _filled(rows: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """Omit empty rows, and empty cells at the ends of rows."""
    for row in rows:
        while row and (row[-1] is None or row[-1] == ""):
            row.pop()
        if row:
            yield row


def read_csv(text: str) -> tuple[str, list[str]]:
    """Return the table of a CSV text, and notes about it. The delimiter is found in its start."""
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(text[:SAMPLE], DELIMITERS)
    except csv.Error:
        dialect = csv.excel
    csv.field_size_limit(MOST_TEXT)
    try:
        rows = _filled(list(csv.reader(io.StringIO(text), dialect)))
    except csv.Error as error:
        raise JobFailed(f"it is not a valid CSV file ({error})") from error
    lines: list[str] = []
    room = MOST_TEXT
    for line in tables.markdown(rows):
        room -= len(line) + 1
        if room < 0:
            return "\n".join(lines), [_cut()]
        lines.append(line)
    return "\n".join(lines), []


def _cut() -> str:
    return f"Only the first {MOST_TEXT >> 20} million characters were converted."
