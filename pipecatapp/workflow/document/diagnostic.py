"""Errors of a document, with enough detail for a person or a model to correct them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One error. Line and column count from 1; `text` is the text at this position."""

    file: str
    line: int
    column: int
    message: str
    mend: str = ""
    text: str = ""

    def __str__(self) -> str:
        mend = f". {self.mend}" if self.mend else ""
        return f"{self.file}:{self.line}:{self.column}: {self.message}{mend}"

    @property
    def shown(self) -> str:
        """The message for people, followed by the text at its position."""
        return f"{self}\n    {self.text}" if self.text else str(self)


class InvalidDocument(Exception):
    """A document is not a workflow that can run.

    `diagnostics` contains all errors, each with position, reason and correction.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = sorted(set(diagnostics))
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))


def did_you_mean(word: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """`Did you mean 'x'?`, or what is known when nothing is near, or `otherwise` when nothing is
    known.
    """
    names = sorted(known)
    if near := get_close_matches(word, names, n=1, cutoff=0.6):
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names)}" if names else otherwise
