"""Text of a person or a model as a query of SQLite's FTS5, which never fails."""

import re
from typing import Final

PART: Final = re.compile(r'"([^"]*)"|(\S+)')
LETTER: Final = re.compile(r"\w")
MOST: Final = 32
"""Words of a query."""
UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
"""Scripts without spaces between words, which the index does not split."""


def phrases(text: str) -> list[str]:
    """Return the words and the quoted phrases of a text, without characters that no word has."""
    found = [quoted or word for quoted, word in PART.findall(text.replace("\0", " "))]
    return [one for one in found if LETTER.search(one)][:MOST]


def expression(parts: list[str], *, every: bool) -> str:
    """Return an expression for `MATCH` that finds `every` part, or any of them.

    Each part is a string of FTS5, so that operators and quotes in it are text. A `*` at its end
    finds all words that begin with it. Source: https://sqlite.org/fts5.html, section 3.
    """
    strings = [_string(part) for part in parts]
    return (" AND " if every else " OR ").join(strings)


def _string(part: str) -> str:
    prefix = "*" if part.endswith("*") and LETTER.search(part[-2:-1]) else ""
    return '"' + part.replace('"', '""') + '"' + prefix


def is_unspaced(text: str) -> bool:
    """Return whether a text has letters of a script without spaces."""
    return UNSPACED.search(text) is not None
