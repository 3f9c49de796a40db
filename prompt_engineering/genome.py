"""Prompt documents as genomes, and the operations that change them.

A genome is text and tags: data, never code. A mutation is a list of operations on lines, so each
candidate has a diff to its parent.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Id = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$", max_length=200)]

_WORD: Final = re.compile(r"\w+")
_FIELD: Final = re.compile(r"\{\{.*?\}\}|\{\w*\}|<[A-Z_]{2,}>")


class InvalidOperation(ValueError):
    """An operation names a line that the text does not have."""


class ReplaceLines(BaseModel):
    """Replace `count` lines from `first` (0 is the first line) by `lines`; a count of 0 inserts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["replace"] = "replace"
    first: int = Field(ge=0)
    count: int = Field(ge=0)
    lines: tuple[str, ...] = ()


class MoveLine(BaseModel):
    """Take a line out and insert it before the line that then has the index `to`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["move"] = "move"
    line: int = Field(ge=0)
    to: int = Field(ge=0)


Operation = Annotated[ReplaceLines | MoveLine, Field(discriminator="kind")]


class Genome(BaseModel):
    """One prompt: its id, its tags in alphabetical order, and the text that a model reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: Id
    tags: tuple[str, ...]
    text: str

    @property
    def document(self) -> str:
        """The Markdown that the application stores: front matter with the tags, then the text."""
        tags = ", ".join(f'"{tag}"' for tag in self.tags)
        return f"---\ntags: [{tags}]\n---\n{self.text}\n"

    def changed(self, operations: Iterable[Operation]) -> "Genome":
        """Return the genome after the operations, in their order. Raises `InvalidOperation`."""
        lines = self.text.split("\n")
        for operation in operations:
            if isinstance(operation, MoveLine):
                lines = _moved(lines, operation)
            else:
                end = operation.first + operation.count
                if end > len(lines):
                    raise InvalidOperation(f"The text has {len(lines)} lines, not {end}.")
                lines = [*lines[: operation.first], *operation.lines, *lines[end:]]
        return self.model_copy(update={"text": "\n".join(lines).strip()})


def _moved(lines: Sequence[str], move: MoveLine) -> list[str]:
    if max(move.line, move.to) >= len(lines):
        raise InvalidOperation(f"The text has no line {max(move.line, move.to) + 1}.")
    left = [line for index, line in enumerate(lines) if index != move.line]
    return [*left[: move.to], lines[move.line], *left[move.to :]]


def operations_between(before: str, after: str) -> list[Operation]:
    """Return the operations that change one text into another, from its last line to its first."""
    old, new = before.split("\n"), after.split("\n")
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return [
        ReplaceLines(first=start, count=end - start, lines=tuple(new[new_start:new_end]))
        for _, start, end, new_start, new_end in reversed(changes)
    ]


def diff_of(before: str, after: str) -> str:
    """Return the unified diff between two texts, without file names."""
    lines = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=2)
    return "\n".join(list(lines)[2:])


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def token_set(text: str) -> frozenset[tuple[str, ...]]:
    """Return the words and the pairs of adjacent words: two texts with moved lines differ."""
    words = words_of(text)
    return frozenset((*((word,) for word in words), *pairwise(words)))


def distance(left: str, right: str) -> float:
    """Return the Jaccard distance of the token sets of two texts: 0 for equal ones, 1 at most."""
    one, other = token_set(left), token_set(right)
    return 1 - len(one & other) / len(one | other) if one | other else 0.0


def template_fields(text: str) -> list[str]:
    """Return what looks like a template field, such as `{name}` or `<NAME>`, sorted."""
    return sorted(_FIELD.findall(text))
