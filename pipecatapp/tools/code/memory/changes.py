"""A unified diff as changes of definitions, which can be found again in another project."""

from collections.abc import Sequence
from itertools import groupby

from pipecatapp.records.fixes import SymbolChange
from pipecatapp.tools.code.context.candidates import Sources
from pipecatapp.tools.code.edit.reading.blocks import Hunk, Hunks, Sign
from pipecatapp.tools.code.edit.reading.diffs import parse_diff
from pipecatapp.tools.code.symbols.definition import Definition

CONTEXT = 3
"""Unchanged lines before and after a change that are kept."""


class NotKept(Exception):
    """The change cannot be stored as changes of definitions; the message says why."""


async def symbol_changes(sources: Sources, diff: str) -> list[SymbolChange]:
    """Split the diff that led to the files in `sources` into changes of single definitions.

    Raises `NotKept` for files that were added, removed, renamed or are not text, and for lines
    that were only added outside of any others.
    """
    blocks, _ = parse_diff(diff.split("\n"), 0, fenced=True)
    changes: list[SymbolChange] = []
    for block in blocks:
        if not isinstance(block, Hunks) or block.creates or block.deletes:
            raise NotKept("Only changes of the text of existing files are stored.")
        if sources.lines(block.path) is None:
            raise NotKept(f"{block.path} cannot be read.")
        known = await sources.definitions(block.path)
        shift = 0
        for hunk in block.hunks:
            changes += _split(block.path, hunk, (hunk.start or 1) + shift, known)
            shift += sum({"+": 1, "-": -1}.get(sign, 0) for sign, _ in hunk.lines)
    if not changes:
        raise NotKept("No file was changed.")
    return changes


def _split(
    path: str, hunk: Hunk, start: int, known: Sequence[Definition]
) -> list[SymbolChange]:  # fmt: skip
    """Return one change for each definition that a hunk changes; `start` is its first line in the
    changed file, counted from 1.
    """
    numbers = _numbers(hunk, start)
    symbols = _symbols(hunk, numbers, known)
    changed = [at for at, symbol in enumerate(symbols) if symbol is not None]
    changes = []
    for symbol, group in groupby(changed, key=lambda at: symbols[at]):
        ats = list(group)
        span = next((one for one in known if one.qualified == symbol), None)
        first = _reach(hunk, numbers, ats[0], -1, span)
        last = _reach(hunk, numbers, ats[-1], 1, span)
        lines = [f"{sign}{text}" for sign, text in hunk.lines[first : last + 1]]
        if not any(line[0] != "+" and line[1:].strip() for line in lines):
            raise NotKept(f"The lines added to {path} have no unchanged lines next to them.")
        changes.append(SymbolChange(path=path, symbol=symbol or "", lines=tuple(lines)))
    return changes


def _numbers(hunk: Hunk, start: int) -> list[int]:
    """Return the line of the changed file for each line of a hunk; of a removed line, the next."""
    numbers, line = [], start
    for sign, _ in hunk.lines:
        numbers.append(line)
        line += sign != "-"
    return numbers


def _symbols(
    hunk: Hunk, numbers: Sequence[int], known: Sequence[Definition]
) -> list[str | None]:  # fmt: skip
    """Return the definition of each changed line of a hunk, empty outside of one; None for the
    lines that are kept. Removed lines belong to the lines that replace them.
    """
    symbols: list[str | None] = [None] * len(hunk.lines)
    signs: list[Sign] = [sign for sign, _ in hunk.lines]
    at = 0
    while at < len(signs):
        end = at
        while end < len(signs) and signs[end] != " ":
            end += 1
        if end > at:
            added = [numbers[n] for n in range(at, end) if signs[n] == "+"]
            line = added[0] if added else numbers[at] - 1
            holding = _innermost(known, line, added[-1] if added else line)
            symbols[at:end] = [holding] * (end - at)
        at = end + 1
    return symbols


def _innermost(known: Sequence[Definition], first: int, last: int) -> str:
    """Return the name of the smallest definition with these lines; empty if there is none, or if
    the name is not unique.
    """
    holding = [one for one in known if one.start <= first and last <= (one.end or 0)]
    if not holding:
        return ""
    name = max(holding, key=lambda one: (one.start, -(one.end or 0))).qualified
    return name if sum(one.qualified == name for one in known) == 1 else ""


def _reach(
    hunk: Hunk, numbers: Sequence[int], at: int, step: int, span: Definition | None
) -> int:  # fmt: skip
    """Go from a changed line over up to `CONTEXT` kept lines of its definition."""
    for _ in range(CONTEXT):
        near = at + step
        if not 0 <= near < len(hunk.lines) or hunk.lines[near][0] != " ":
            break
        if span is not None and not span.start <= numbers[near] <= (span.end or 0):
            break
        at = near
    return at
