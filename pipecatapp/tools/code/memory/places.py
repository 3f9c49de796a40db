"""Where a stored fix applies in the project of a workspace, and the text of the files after it."""

import asyncio
import difflib
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import cast

from pipecatapp.records.fixes import Fix, SymbolChange
from pipecatapp.tools.code.context.candidates import Sources
from pipecatapp.tools.code.edit.change import blob_id
from pipecatapp.tools.code.edit.content import Edit, edited
from pipecatapp.tools.code.edit.content import decode as content_of
from pipecatapp.tools.code.edit.matching.ladder import edits_of, locate, squeezed
from pipecatapp.tools.code.edit.reading.blocks import Hunk, Sign
from pipecatapp.tools.code.edit.refusal import Refused
from pipecatapp.tools.code.edit.transaction import read_file

Place = tuple[str, str]
"""A file and the qualified name of a definition in it."""


async def applied(
    sources: Sources, root: Path, files: Sequence[str], fix: Fix, near: Iterable[Place]
) -> str | None:
    """Return the fix as a unified diff of this project; None where it does not apply.

    Each change is looked for in a definition of the same name, in any file of the same kind, and in
    the definitions `near` the error, which may have other names. All changes of one stored file
    belong to one file of the project, and that has to be the only one.
    """
    diffs = []
    for path, group in groupby(sorted(fix.edit, key=lambda one: one.path), lambda one: one.path):
        changes = list(group)
        suffix = PurePosixPath(path).suffix
        known = [file for file in files if PurePosixPath(file).suffix == suffix]
        targets = {}
        for file in await asyncio.to_thread(_with_lines, sources, known, changes):
            edits = await _edits(sources, file, changes, {name for at, name in near if at == file})
            if edits is not None:
                targets[file] = edits
        chosen = path if path in targets else next(iter(targets), None)
        if chosen is None or (chosen != path and len(targets) > 1):
            return None
        diff = await asyncio.to_thread(_diff, root, chosen, targets[chosen])
        if diff is None:
            return None
        diffs.append(diff)
    return "".join(diffs)


def _with_lines(
    sources: Sources, files: Iterable[str], changes: Sequence[SymbolChange]
) -> list[str]:
    """The files that have every line that the changes keep or remove, in any order."""
    wanted = {squeezed(line[1:]) for change in changes for line in change.lines if line[0] != "+"}
    return [file for file in files if wanted <= {*map(squeezed, sources.lines(file) or ())} | {""}]


async def _edits(
    sources: Sources, file: str, changes: Sequence[SymbolChange], near: set[str]
) -> list[Edit] | None:
    """The edits of one file, if each change has exactly one place in it."""
    lines = sources.lines(file) or []
    edits: list[Edit] = []
    for change in changes:
        if not change.symbol:
            found = _within(lines, 0, len(lines), change)
        else:
            spans = {
                one.qualified: (one.start - 1, one.end)
                for one in await sources.definitions(file)
                if one.end is not None and one.qualified in {change.symbol, *near}
            }
            own = spans.pop(change.symbol, None)
            found = _within(lines, *own, change) if own else None
            others = filter(None, (_within(lines, *span, change) for span in spans.values()))
            found = found or next(others, None)
        if found is None:
            return None
        edits += found
    return edits


def _within(lines: Sequence[str], start: int, end: int, change: SymbolChange) -> list[Edit] | None:
    signed = tuple((cast("Sign", line[0]), line[1:]) for line in change.lines)
    hunk = Hunk(signed, at=1)
    try:
        place = locate(lines[start:end], hunk)
    except Refused:
        return None
    return [
        Edit(edit.start + start, edit.end + start, edit.lines) for edit in edits_of(hunk, place)
    ]


def _diff(root: Path, path: str, edits: Sequence[Edit]) -> str | None:
    """The change of a file as git writes it. The id of the blob tells `code.edit` that the line
    numbers are right. None where the edits overlap or the file is not text.
    """
    there = read_file(root, path)
    if there is None:
        return None
    try:
        new = edited(content_of(there[0]), edits).encode()
    except Refused:
        return None
    if new == there[0]:
        return None
    before, after = (data.decode("utf-8-sig").split("\n") for data in (there[0], new))
    body = difflib.unified_diff(_lines(before), _lines(after), f"a/{path}", f"b/{path}")
    return (
        f"diff --git a/{path} b/{path}\nindex {blob_id(there[0])}..{blob_id(new)} 100644\n"
        + "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in body
        )
    )


def _lines(parts: Sequence[str]) -> list[str]:
    """The lines with their ends; only the last one may have none."""
    return [f"{line}\n" for line in parts[:-1]] + [last for last in parts[-1:] if last]
