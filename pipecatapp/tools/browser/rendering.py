"""The text of a snapshot within a budget of tokens: numbered elements, folded lists."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pipecatapp.tools.browser.snapshot import Element, Line, Snapshot
from pipecatapp.tools.memory.tokens import estimated
from pipecatapp.tools.plain.delimited import delimited

SHOWN: Final = 3
"""Items of a list that are shown before the rest is folded."""
LONGEST_ITEM: Final = 400
"""Characters; lists with longer items are not folded."""
LAST_LINE: Final = 40
"""Tokens for the line that says where the text goes on."""


@dataclass(frozen=True)
class Entry:
    """A line of the output. `first` is the line of the snapshot that it begins with."""

    text: str
    first: int


@dataclass(frozen=True)
class Rendered:
    """A text, and the first line that it leaves out; None at the end."""

    text: str
    next: int | None


def line_text(snapshot: Snapshot, line: Line) -> str:
    """Return a line with its elements: `See [3 link "Terms"].`"""
    text = "".join(
        one if isinstance(one, str) else f"[{one} {element_text(snapshot.element(one))}]"
        for one in line.parts
    )
    return " ".join(text.split()).removesuffix(" |")


def element_text(element: Element) -> str:
    """Return an element: `textbox "Name" = "Ada" (disabled)`."""
    text = f'{element.role} "{element.label}"' if element.label else element.role
    if element.value:
        text += f' = "{element.value}"'
    if element.states:
        text += f" ({', '.join(element.states)})"
    if element.options:
        text += f" of {' / '.join(element.options)}"
    return text


def rendered(snapshot: Snapshot, budget: int, *, first: int = 0, fold: bool = True) -> Rendered:
    """Return the text from line `first` on, in at most `budget` tokens.

    If all of it fits, nothing but repeated lines is folded.
    """
    lines = snapshot.lines[first:]
    entries = list(_entries(snapshot, lines, first, fold=False))
    if fold and sum(estimated(entry.text) for entry in entries) > budget:
        entries = list(_entries(snapshot, lines, first, fold=True))
    return _fitted(entries, budget)


def _fitted(entries: Sequence[Entry], budget: int) -> Rendered:
    texts: list[str] = []
    left = budget
    for entry in entries:
        tokens = estimated(entry.text) + 1
        if tokens > left:
            if texts:
                return Rendered("\n".join(texts), entry.first)
            return Rendered(_part(entry.text, left), entry.first + 1)
        texts.append(entry.text)
        left -= tokens
    return Rendered("\n".join(texts), None)


def _part(text: str, budget: int) -> str:
    """Return the beginning of a line that is longer than the budget."""
    while estimated(text) > budget and len(text) > 1:
        text = text[: len(text) * 9 // 10]
    return f"{text}…"


def _entries(
    snapshot: Snapshot, lines: Sequence[Line], first: int, *, fold: bool
) -> Iterator[Entry]:
    at = first
    for family, members in groupby(lines, lambda line: line.family if fold else ""):
        run = list(members)
        if family:
            yield from _folded(snapshot, run, at)
        else:
            yield from _repeated(snapshot, run, at)
        at += len(run)


def _repeated(snapshot: Snapshot, lines: Sequence[Line], first: int) -> Iterator[Entry]:
    """Yield lines; equal ones that follow each other become one."""
    at = first
    for text, equal in groupby(line_text(snapshot, line) for line in lines):
        count = len(list(equal))
        times = f" (this line {count} times)" if count > 1 else ""
        yield Entry(text + times, at)
        at += count


def _folded(snapshot: Snapshot, lines: Sequence[Line], first: int) -> Iterator[Entry]:
    """Yield the first items of a list of similar ones, and how many more there are."""
    items = [list(members) for _item, members in groupby(lines, lambda line: line.item)]
    texts = [[line_text(snapshot, line) for line in item] for item in items]
    if any(sum(map(len, item)) > LONGEST_ITEM for item in texts):
        yield from _repeated(snapshot, lines, first)
        return
    shown, at = items[:SHOWN], first
    for item in shown:
        yield from _repeated(snapshot, item, at)
        at += len(item)
    if len(items) > SHOWN:
        yield Entry(_more_like(snapshot, shown, len(items) - SHOWN, at), at)


def _more_like(snapshot: Snapshot, shown: Sequence[Sequence[Line]], count: int, at: int) -> str:
    """Return how many more there are like which elements, and the reference that unfolds them."""
    numbers = [
        part for item in shown for line in item for part in line.parts if isinstance(part, int)
    ]
    if not numbers:
        like = f"the {SHOWN} items above"
    elif numbers[0] == numbers[-1]:
        like = str(numbers[0])
    else:
        like = f"{numbers[0]}–{numbers[-1]}"  # noqa: RUF001 (a range)
    return f"({count} more like {like}; more: {reference(snapshot, at, unfold=True)})"


def reference(snapshot: Snapshot, line: int, *, unfold: bool = False) -> str:
    """Return the reference to a line, for `more`."""
    return f"{snapshot.ref}:{line}{'u' if unfold else ''}"


def as_data(text: str, address: str) -> str:
    """Delimit the text of a page, so that a model takes it for data."""
    return delimited(text, about=f"Text of the web page {address[:500]}", name="page")


def room(budget: int, address: str) -> int:
    """Return how many tokens of a budget are left for the text of a page."""
    return budget - estimated(as_data("", address)) - LAST_LINE
