"""How these commands print what they found."""

import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from pipecatapp.cli.exit_codes import DONE
from pipecatapp.cli.runs import console


def json_out(found: Any) -> int:
    """Print data of the API as JSON."""
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    return DONE


def table_out(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, otherwise: str) -> int:
    """One line each; only the last column is cut where the window is too narrow."""
    if not rows:
        typer.echo(otherwise)
        return DONE
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        last = name == columns[-1]
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1 if last else None)
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in columns))
    console().print(table)
    return DONE


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else " ".join(str(value).split())
