"""A text that is still being written, cut into pieces that can be spoken."""

import re
from collections.abc import Iterator
from typing import Final

SENTENCE_END: Final = re.compile(r"[.!?…:]+[\"')\]]*\s+|\n+")
CLAUSE_END: Final = re.compile(r"[,;:\u2013\u2014]\s+")
FIRST_WORDS: Final = re.compile(r"\s*(?:\S+\s+){6}")
"""If the first clause is longer, so many words are spoken as the first part."""

LONGEST: Final = 300
"""Characters after which a sentence that does not end is cut at a space."""

CODE: Final = re.compile(r"```.*?```", re.DOTALL)
UNSPOKEN: Final = re.compile(r"[*_`#>|]+|<[^<>]*>")
"""Marks of Markdown are for the eye, and so is code."""


class Clauses:
    """Splits text as it arrives. The first part is short, so that the answer starts early."""

    def __init__(self) -> None:
        self._rest, self._first = "", True

    def feed(self, text: str) -> Iterator[str]:
        """The pieces that this text completes."""
        self._rest = CODE.sub("\n", self._rest + text)
        while (end := self._end()) is not None:
            piece, self._rest = self._rest[:end], self._rest[end:]
            yield from self._spoken(piece)

    def flush(self) -> Iterator[str]:
        """Return the remaining clauses at the end of the text."""
        piece, self._rest = self._rest, ""
        yield from self._spoken(piece)

    def _spoken(self, piece: str) -> Iterator[str]:
        words = " ".join(UNSPOKEN.sub(" ", piece).split())
        if re.search(r"\w", words):
            self._first = False
            yield words

    def _end(self) -> int | None:
        text = self._rest.partition("```")[0]  # code that is not whole yet is not spoken
        ends = [SENTENCE_END.search(text)]
        if self._first:
            ends += [CLAUSE_END.search(text), FIRST_WORDS.match(text)]
        found = [end.end() for end in ends if end is not None]
        if not found and len(text) > LONGEST:
            found = [text.rfind(" ", 0, LONGEST) + 1 or LONGEST]
        return min(found, default=None)
