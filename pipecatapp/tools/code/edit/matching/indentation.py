"""How the indentation of an answer becomes that of the file, where it is certain."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

Mapping = Callable[[str], str | None]
"""The file's indentation for one of the answer; None where it cannot be derived."""


def leading(line: str) -> str:
    """The white space at the start of a line."""
    return line[: len(line) - len(line.lstrip())]


def foreign(lines: Sequence[str], added: Sequence[str]) -> bool:
    """Whether the added lines indent with tabs where the file has spaces alone, or reversed."""
    marks = [{mark for line in side for mark in leading(line)[:1]} for side in (lines, added)]
    return len(marks[0]) == 1 and not marks[1] <= marks[0]


def reindented(
    pairs: Sequence[tuple[str, str]],
    added: Sequence[str],
    *,
    first_stripped: bool = False,
    leads: bool = False,
) -> list[str] | None:
    """The added lines with the file's indentation. `pairs` holds each line of the answer that was
    found, with the line of the file that it is equal to up to white space; `first_stripped` says
    that the first line of each part may have lost its own; of the added lines, the first one is
    that where it `leads`.

    Every rule that explains all pairs is tried; None where there is none, or where two rules give
    different results.
    """
    indents = [(leading(mine), leading(file)) for mine, file in pairs if mine.strip()]
    results = {
        tuple(result) for rule in _rules(indents) if (result := _mapped(added, rule)) is not None
    }
    if first_stripped and (result := _first_line(indents, added, leads)) is not None:
        results.add(tuple(result))
    return list(results.pop()) if len(results) == 1 else None


def _mapped(added: Sequence[str], rule: Mapping) -> list[str] | None:
    result = []
    for line in added:
        if not line.strip():
            result.append(line)
            continue
        indent = rule(leading(line))
        if indent is None:
            return None
        result.append(indent + line.lstrip())
    return result


def _first_line(
    indents: Sequence[tuple[str, str]],
    added: Sequence[str],
    leads: bool,  # noqa: FBT001
) -> list[str] | None:
    """Only the first line lost its indentation, the others are as in the file."""
    (mine, file), *others = indents
    if mine or not file or any(one != two for one, two in others):
        return None
    if not leads or not added:
        return list(added)
    return None if leading(added[0]) else [file + added[0], *added[1:]]


def _rules(indents: Sequence[tuple[str, str]]) -> Iterator[Mapping]:
    """The rules that explain every pair: more, less, or another unit of indentation."""
    mine, file = indents[0]
    if file.endswith(mine):
        more = file.removesuffix(mine) if mine else file
        if all(two == more + one for one, two in indents):
            yield lambda indent: more + indent
    if mine != file and mine.endswith(file):
        less = mine.removesuffix(file) if file else mine
        if all(one == less + two for one, two in indents):
            yield lambda indent: indent.removeprefix(less) if indent.startswith(less) else None
    yield from _units(indents)


def _units(indents: Sequence[tuple[str, str]]) -> Iterator[Mapping]:
    """Tabs for spaces, spaces for tabs, or another number of spaces for each level."""
    for unit in ("\t", "  ", "    ", "        "):
        for other in ("\t", "  ", "    ", "        "):
            if unit == other or all(one == two for one, two in indents):
                continue
            if all(_converted(one, unit, other) == two for one, two in indents):
                yield partial(_converted, unit=unit, other=other)


def _converted(indent: str, unit: str, other: str) -> str | None:
    levels, rest = divmod(len(indent), len(unit))
    return other * levels if not rest and indent == unit * levels else None
