"""Moving source to another indentation without changing text that spans several lines."""

import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

STATEMENT: Final = frozenset(
    {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT}
)
OPEN_TEXT: Final = ("`", '"""', "'''", 'R"', "<<", "\\")
"""Marks of texts over several lines in other languages than Python."""


@dataclass(frozen=True)
class Text:
    """A string over several lines: its rows from 0, and whether it is a statement by itself."""

    first: int
    last: int
    alone: bool


def shifted(
    lines: Sequence[str], mine: str, file: str, old: str, *, python: bool
) -> list[str] | None:
    """The lines with the indentation `file` in place of `mine`; None where it is not certain.

    A string over several lines is moved along where the `old` source has it so, or where it is a
    docstring; it is left as it is where the old source has it so.
    """
    if not python:
        uncertain = any(mark in line for line in lines for mark in OPEN_TEXT)
        return None if uncertain else _moved(lines, range(len(lines)), mine, file)
    fixed: set[int] = set()
    for text in _texts(lines, indented=bool(mine)):
        rows = range(text.first + 1, text.last + 1)
        moved = _moved(lines, rows, mine, file)
        if moved is not None and _inside(moved, rows, old):
            continue
        if _inside(lines, rows, old):
            fixed.update(rows)
        elif not text.alone or moved is None:
            return None
    return _moved(lines, [row for row in range(len(lines)) if row not in fixed], mine, file)


def _inside(lines: Sequence[str], rows: range, old: str) -> bool:
    part = "\n".join(lines[row] for row in rows)
    return f"\n{part}\n" in f"{old}\n"


def _moved(
    lines: Sequence[str], rows: Sequence[int] | range, mine: str, file: str
) -> list[str] | None:
    result = list(lines)
    for row in rows:
        line = lines[row]
        if not line.strip():
            continue
        if not line.startswith(mine):
            return None
        result[row] = file + line.removeprefix(mine)
    return result


def _texts(lines: Sequence[str], *, indented: bool) -> Iterator[Text]:
    """Strings over several lines. The source has been parsed before, so it has tokens."""
    extra = 1 if indented else 0
    source = "\n".join([*["if 1:"] * extra, *lines, ""])
    before, begin = tokenize.NEWLINE, 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            begin = token.start[0]
        first = begin if name == "FSTRING_END" else token.start[0]
        if name in ("STRING", "FSTRING_END") and first < token.end[0]:
            yield Text(first - 1 - extra, token.end[0] - 1 - extra, before in STATEMENT)
        before = token.type
