"""Remove text that engines hallucinate, and split text into sentences."""

import re
from collections.abc import Iterator
from typing import Final

NOISE: Final = re.compile(r"[\[(*♪][^\])*♪]*[\])*♪]|[♪♫]")
"""`[BLANK_AUDIO]`, `(wind blowing)`, `*music*`: sounds that are described, not words."""

SILENCE: Final = frozenset({"you", "thank you", "thanks for watching", "bye", "so", "uh", "um"})
"""Complete outputs of models trained on subtitles for silence."""

LOOP: Final = re.compile(r"\b(\w[^.!?]{0,60}?)((?:[\s,.!?]+\1\b){3,})", re.IGNORECASE)
"""The same words four times or more, the typical output of a model that is stuck in a loop."""

QUIET: Final = 0.005
"""Peak amplitude (of 1) below which audio counts as silence."""

SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|(?<=[.!?…][\"')\]])\s+|\n+")
LONGEST_SENTENCE: Final = 400
"""Characters after which a text without any full stop is cut at a space."""


def said(text: str, *, loudest: float, seconds: float) -> str:
    """The words of a transcript without what was made up for noise and silence.

    A lone word of `SILENCE` is dropped only from sound that is quiet or too short to hold it.
    """
    words = LOOP.sub(r"\1", " ".join(NOISE.sub(" ", text).split()))
    if loudest < QUIET or not re.search(r"\w", words):
        return ""
    alone = re.sub(r"[^\w ]", "", words).strip().lower()
    if alone in SILENCE and (loudest < 4 * QUIET or seconds < 0.2):
        return ""
    return words


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each short enough for one synthesis."""
    for sentence in SENTENCE_END.split(text):
        rest = sentence.strip()
        while len(rest) > LONGEST_SENTENCE:
            cut = rest.rfind(" ", 0, LONGEST_SENTENCE)
            cut = cut if cut > 0 else LONGEST_SENTENCE
            yield rest[:cut].strip()
            rest = rest[cut:].strip()
        if re.search(r"\w", rest):
            yield rest
