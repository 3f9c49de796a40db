"""Checks of a new candidate before any run is paid for."""

from collections.abc import Iterable, Sequence
from typing import Final

from prompt_engineering.cases import Case
from prompt_engineering.genome import Genome, distance, template_fields, words_of

COPIED_WORDS: Final = 8
"""Words in a row that a candidate may not share with a case. A copied case scores well on the
cases that the mutator sees and on no others."""
NOVELTY: Final = 0.02
"""Smallest distance of token sets to every candidate so far."""
LENGTH_FACTOR: Final = 2.0
LENGTH_EXTRA: Final = 600


def rejection(
    genome: Genome, seed: Genome, pool: Iterable[Genome], learn: Sequence[Case]
) -> str | None:
    """Return why a candidate is not worth a run; None if it is.

    `seed` is the prompt that the campaign began with: its own template fields and words are
    allowed, and its length sets the cap.
    """
    if not genome.text.strip():
        return "The text is empty."
    cap = int(LENGTH_FACTOR * len(seed.text)) + LENGTH_EXTRA
    if len(genome.text) > cap:
        return f"The text has {len(genome.text)} characters; {cap} are allowed."
    if template_fields(genome.text) != template_fields(seed.text):
        return "The template fields are not those of the first prompt."
    if any(distance(genome.text, other.text) < NOVELTY for other in pool):
        return "The text is almost the same as that of another candidate."
    copied = copied_words(genome.text, seed.text, learn)
    return f"The text copies a case: {copied!r}." if copied else None


def copied_words(text: str, seed: str, cases: Sequence[Case]) -> str | None:
    """Return the first words in a row that a text shares with a case but not with the seed."""
    known = _runs_of_words(seed)
    found = _runs_of_words(text) - known
    copies = sorted(
        words for case in cases for part in case.texts for words in found & _runs_of_words(part)
    )
    return " ".join(copies[0]) if copies else None


def _runs_of_words(text: str) -> set[tuple[str, ...]]:
    words = words_of(text)
    return {
        tuple(words[start : start + COPIED_WORDS]) for start in range(len(words) - COPIED_WORDS + 1)
    }
