"""Tables as Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

_SPACE: Final = re.compile(r"\s+")


def markdown(rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield the lines of a table whose first row is the header; nothing for a table without rows.

    All lines have as many cells as the longest of the first hundred rows.
    """
    rest = iter(rows)
    first = list(islice(rest, 100))
    width = max(map(len, first), default=0)
    for number, row in enumerate(chain(first, rest)):
        cells = [cell(value) for value in row]
        cells += [""] * (width - len(cells))
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{' --- |' * max(width, 1)}"


def cell(value: Any) -> str:
    """Return the text of a cell in one line, without a character that would end the cell."""
    text = "" if value is None else _SPACE.sub(" ", str(value)).strip()
    return text.replace("\\", "\\\\").replace("|", "\\|")
