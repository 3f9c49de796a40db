"""The golden sentences, and how many words of them an engine heard wrong."""

import re
from collections.abc import Sequence
from typing import Final

SENTENCES: Final = (
    "What is the capital of France?",
    "Turn on the lights in the kitchen, please.",
    "The quick brown fox jumps over the lazy dog.",
    "How many planets are there in the solar system?",
    "Please read the news of today to me.",
    "Remind me to call my mother tomorrow morning.",
    "Is there enough milk in the fridge for breakfast?",
    "Close the garage door and lock the front door.",
    "The library opens in the morning and closes at night.",
    "Play some quiet music in the living room.",
    "It will rain in the afternoon, so take an umbrella with you.",
    "Write down that we need bread, butter and apples.",
)
"""Without figures, which one engine writes as words and another one as digits."""


def word_errors(said: str, heard: str) -> float:
    """Word error rate: the fewest changed, added and lost words for each word that was said."""
    wanted, found = words(said), words(heard)
    row = list(range(len(found) + 1))
    for number, word in enumerate(wanted, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(found, 1):
            change = before + (word != other)
            before = row[place]
            row[place] = min(row[place] + 1, row[place - 1] + 1, change)
    return row[-1] / len(wanted)


def words(text: str) -> Sequence[str]:
    return re.sub(r"[^a-z0-9 ]", "", text.lower()).split()
