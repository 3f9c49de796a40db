"""How many tokens a text has for a model, without the model's own tokenizer."""

import re
from typing import Final

_SINGLE: Final = re.compile(r"[0-9]|[^\w\s]")
"""Digits and symbols: many tokenizers make a token of each."""

SHORTENED: Final = "\n[… shortened …]\n"
"""Replaces the omitted middle of a text."""

BYTES_PER_TOKEN: Final = 3
"""Of ASCII words; real ones have 4 to 5. An estimate that is too high forgets a little earlier; one
that is too low makes a request that the model refuses."""
FOREIGN_BYTES_PER_TOKEN: Final = 2
"""Of other alphabets, which vocabularies made for English split into more pieces."""
MOST_BYTES_PER_TOKEN: Final = 6
"""A count below one token for so many bytes is not of this text."""


def estimated(text: str, counted: int = 0) -> int:
    """The tokens of a text. `counted`: how many a model reported for it (0: not known), which
    replaces a higher estimate if it can be true.
    """
    single = len(_SINGLE.findall(text))
    size = len(text.encode())
    ascii_size = sum(map(str.isascii, text))
    words = max(0, ascii_size - single) / BYTES_PER_TOKEN
    found = int(single + words + (size - ascii_size) / FOREIGN_BYTES_PER_TOKEN) + 1
    if counted * MOST_BYTES_PER_TOKEN < size:
        return found
    return min(found, counted)


def shortened(text: str, room: int) -> str:
    """A text with its middle taken out, so that it has at most `room` tokens."""
    whole = estimated(text)
    if whole <= room:
        return text
    left = max(0, room - estimated(SHORTENED))
    kept = len(text) * left // whole // 2
    while estimated(text[:kept]) + estimated(text[len(text) - kept :]) > left and kept:
        kept = kept * 9 // 10
    return text[:kept] + SHORTENED + text[len(text) - kept :]
