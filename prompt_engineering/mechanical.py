"""Mutations without a model: drop, move or shorten a line, or add an example from `learn`."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from prompt_engineering.archive import Origin
from prompt_engineering.cases import Case
from prompt_engineering.genome import Genome, MoveLine, Operation, ReplaceLines
from prompt_engineering.prechecks import COPIED_WORDS

_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")


@dataclass(frozen=True)
class Mutation:
    """A change of a prompt. `tokens` is what a model used to propose it."""

    origin: Origin
    operations: tuple[Operation, ...]
    rationale: str
    tokens: int = 0
    model: str = ""


Operator = Callable[[Genome, Sequence[Case], random.Random], Mutation | None]
"""Returns None where the prompt has no line that the operator could change."""


def drop_line(genome: Genome, learn: Sequence[Case], rng: random.Random) -> Mutation | None:
    """Remove one sentence or line, if there are two."""
    del learn
    lines = _filled_lines(genome)
    if len(lines) < 2:
        return _drop_sentence(genome, rng)
    index = rng.choice(lines)
    return Mutation("drop", (ReplaceLines(first=index, count=1),), f"Remove line {index + 1}.")


def _drop_sentence(genome: Genome, rng: random.Random) -> Mutation | None:
    index = _filled_lines(genome)[0]
    sentences = _SENTENCE.split(genome.text.split("\n")[index])
    if len(sentences) < 2:
        return None
    dropped = rng.randrange(len(sentences))
    line = " ".join(one for place, one in enumerate(sentences) if place != dropped)
    change = ReplaceLines(first=index, count=1, lines=(line,))
    return Mutation("drop", (change,), f"Remove sentence {dropped + 1} of line {index + 1}.")


def move_line(genome: Genome, learn: Sequence[Case], rng: random.Random) -> Mutation | None:
    """Move one line to another place, or a sentence where there is only one line."""
    del learn
    lines = _filled_lines(genome)
    if len(lines) < 2:
        return _move_sentence(genome, rng)
    line, to = rng.sample(lines, 2)
    return Mutation("move", (MoveLine(line=line, to=to),), f"Move line {line + 1} to {to + 1}.")


def _move_sentence(genome: Genome, rng: random.Random) -> Mutation | None:
    index = _filled_lines(genome)[0]
    sentences = _SENTENCE.split(genome.text.split("\n")[index])
    if len(sentences) < 2:
        return None
    moved = sentences.pop(rng.randrange(len(sentences)))
    sentences.insert(rng.randrange(len(sentences) + 1), moved)
    change = ReplaceLines(first=index, count=1, lines=(" ".join(sentences),))
    return Mutation("move", (change,), f"Move a sentence of line {index + 1}.")


def shorten_line(genome: Genome, learn: Sequence[Case], rng: random.Random) -> Mutation | None:
    """Keep only the first half of the words of a line that has at least six."""
    del learn
    lines = genome.text.split("\n")
    long = [index for index, line in enumerate(lines) if len(line.split()) >= 6]
    if not long:
        return None
    index = rng.choice(long)
    words = lines[index].split()
    kept = " ".join(words[: len(words) // 2]).rstrip(",;:") + "."
    change = ReplaceLines(first=index, count=1, lines=(kept,))
    return Mutation("shorten", (change,), f"Shorten line {index + 1}.")


def add_example(genome: Genome, learn: Sequence[Case], rng: random.Random) -> Mutation | None:
    """Append the input and the expected answer of a case, the input cut before it is a copy."""
    usable = [case for case in learn if case.expected and _question(case)]
    if not usable:
        return None
    case = rng.choice(usable)
    words = _question(case).split()
    shown = " ".join(words[: COPIED_WORDS - 1]) + (" …" if len(words) >= COPIED_WORDS else "")
    expected = " ".join(str(case.expected).split()[: COPIED_WORDS - 1])
    end = genome.text.count("\n") + 1
    line = f"Example: {shown} → {expected}"
    change = ReplaceLines(first=end, count=0, lines=(line,))
    return Mutation("example", (change,), f"Add the case {case.id} of learn as an example.")


MECHANICAL: Final[tuple[Operator, ...]] = (drop_line, move_line, shorten_line, add_example)


def _filled_lines(genome: Genome) -> list[int]:
    return [index for index, line in enumerate(genome.text.split("\n")) if line.strip()]


def _question(case: Case) -> str:
    text = case.inputs.get("text", "")
    return text if isinstance(text, str) else ""
