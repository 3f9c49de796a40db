"""All edits of one file, worked out in memory."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from pipecatapp.tools.code.edit.content import Content, Edit, decode, edited, made, replaced
from pipecatapp.tools.code.edit.elision import (
    check_elision,
    check_gaps,
    check_python_bodies,
    check_whole,
)
from pipecatapp.tools.code.edit.matching.ladder import Place, Rung, edits_of, locate
from pipecatapp.tools.code.edit.matching.symbol import replace_symbol, strip_blank
from pipecatapp.tools.code.edit.reading.blocks import (
    Bad,
    Block,
    Format,
    Hunk,
    Hunks,
    SymbolEdit,
    WholeFile,
)
from pipecatapp.tools.code.edit.refusal import Refused
from pipecatapp.tools.code.edit.syntax import check_syntax
from pipecatapp.tools.code.edit.transaction import Change
from pipecatapp.tools.code.symbols.definition import Definition
from pipecatapp.tools.code.symbols.reading import definitions_of
from pipecatapp.workflow import Context

RUNGS: Final[tuple[Rung, ...]] = ("exact", "whitespace", "symbol")


@dataclass(frozen=True)
class FileEdit:
    """A file with all its edits applied."""

    change: Change
    format: Format
    rung: Rung


@dataclass(frozen=True)
class _Found:
    """The edits that one block makes, and how their places were found."""

    edits: list[Edit]
    rung: Rung
    final_newline: bool | None = None


def group(blocks: Sequence[Block]) -> list[Block]:
    """The blocks of one file, all in one format. Raises `Refused`."""
    for block in blocks:
        if isinstance(block, Bad):
            raise block.error
    whole = [block for block in blocks if isinstance(block, WholeFile)]
    if whole and len(blocks) > 1:
        if len(whole) == len(blocks) and len({block.lines for block in whole}) == 1:
            return [whole[0]]
        raise Refused(
            "overlap", "The answer has the whole file and other edits of it.", at=whole[-1].at
        )
    return list(blocks)


async def edit_file(
    ctx: Context, path: str, there: tuple[bytes, int] | None, blocks: Sequence[Block]
) -> FileEdit:
    """Apply the blocks to the bytes of a file. Raises `Refused`; nothing is written."""
    data, mode = there or (None, 0o644)
    old = None if data is None else decode(data)
    first = blocks[0]
    if isinstance(first, Hunks) and (first.creates or first.deletes):
        return await _created_or_deleted(path, data, old, mode, blocks)
    if isinstance(first, WholeFile):
        new, rung = _whole(old, first), RUNGS[0]
    else:
        if old is None:
            raise Refused("no_such_file", f"There is no {path} to change.", at=first.at)
        new, rung = await _parts(ctx, path, data or b"", old, blocks)
    await asyncio.to_thread(_check, path, old, new, first)
    return FileEdit(Change(path, data, new.encode(), mode), _format(first), rung)


def _whole(old: Content | None, block: WholeFile) -> Content:
    if old is None:
        return made(block.lines)
    check_whole(old.lines, block.lines, block.at)
    return replaced(old, block.lines)


async def _created_or_deleted(
    path: str, data: bytes | None, old: Content | None, mode: int, blocks: Sequence[Block]
) -> FileEdit:
    block = blocks[0]
    assert isinstance(block, Hunks)
    if len(blocks) > 1 or len(block.hunks) != 1:
        raise Refused("overlap", f"{path} is created or removed and also changed.", at=block.at)
    hunk = block.hunks[0]
    if block.deletes:
        if old is None:
            raise Refused("no_such_file", f"There is no {path} to remove.", at=block.at)
        if list(old.lines) != hunk.search or hunk.added:
            raise Refused("not_found", f"{path} has other lines than those to remove.", at=block.at)
        return FileEdit(Change(path, data, None, mode), block.format, "exact")
    if old is not None and old.lines:
        raise Refused("exists", f"{path} exists already and is not empty.", at=block.at)
    if hunk.search:
        raise Refused("malformed", f"{path} is new, so it has no lines to remove.", at=block.at)
    new = made(hunk.added)
    if hunk.final_newline is False and new.ends:
        new = Content(new.lines, (*new.ends[:-1], ""))
    await asyncio.to_thread(_check, path, old, new, block)
    return FileEdit(Change(path, data, new.encode(), mode), block.format, "exact")


async def _parts(
    ctx: Context, path: str, data: bytes, old: Content, blocks: Sequence[Block]
) -> tuple[Content, Rung]:
    found: list[_Found] = []
    for block in blocks:
        if isinstance(block, SymbolEdit):
            found.append(await _symbol(ctx, path, old, block))
        elif isinstance(block, Hunks) and not block.creates and not block.deletes:
            known = bool(block.blob) and blob_id(data).startswith(block.blob)
            found += [await asyncio.to_thread(_hunk, old, hunk, known) for hunk in block.hunks]
        else:
            raise Refused("overlap", f"{path} is created and changed.", at=block.at)
    final = next((one.final_newline for one in found if one.final_newline is not None), None)
    edits = [edit for one in found for edit in one.edits]
    rung = max((one.rung for one in found), key=RUNGS.index)
    return edited(old, edits, final_newline=final), rung


def _hunk(old: Content, hunk: Hunk, known: bool) -> _Found:  # noqa: FBT001
    """Find a hunk; its line numbers count where the file is `known` to be the diff's own."""
    place = _stated(old.lines, hunk) if known else None
    if place is not None:
        edits = edits_of(hunk, place, blank=True)
    else:
        place = locate(old.lines, hunk)
        edits = edits_of(hunk, place)
    if hunk.final_newline is None:
        return _Found(edits, place.rung)
    last = max((edit.end for edit in edits), default=0)
    if last < len(old.lines):
        raise Refused(
            "not_found", "The diff ends before the end of the file.", at=hunk.at
        )  # fmt: skip
    return _Found(edits, place.rung, hunk.final_newline)


def _stated(lines: Sequence[str], hunk: Hunk) -> Place | None:
    if hunk.start is None:
        return None
    search = hunk.search
    start = hunk.start - 1 if search else hunk.start
    if start < 0 or list(lines[start : start + len(search)]) != search:
        return None
    return Place(start, "exact", hunk.added)


async def _symbol(ctx: Context, path: str, old: Content, block: SymbolEdit) -> _Found:
    source = strip_blank(block.lines)
    known = await definitions_of(ctx, path, old.text)
    given = await _given(ctx, path, source, block)
    python = path.endswith((".py", ".pyi"))
    if known is None or given is None:
        raise Refused(
            "no_span", f"Definitions of {path} cannot be found: use a SEARCH/REPLACE block.",
            at=block.at,
        )  # fmt: skip
    edit = replace_symbol(old.lines, known, block, given, python=python)
    return _Found([edit], "symbol")


async def _given(
    ctx: Context, path: str, source: list[str], block: SymbolEdit
) -> list[Definition] | None:
    """The definitions of a block's source, which may be indented."""
    if not source:
        raise Refused("wrong_symbol", f"The source of {block.symbol} is empty.", at=block.at)
    indented = PurePosixPath(path).suffix in (".py", ".pyi") and source[0][0].isspace()
    text = "\n".join([*["if 1:"] * indented, *source, ""])
    found = await definitions_of(ctx, path, text)
    if found is None:
        raise Refused(
            "does_not_parse", f"The source of {block.symbol} does not parse.", at=block.at
        )
    less = int(indented)
    return [
        one.model_copy(
            update={
                "start": one.start - less,
                "line": one.line - less,
                "end": None if one.end is None else one.end - less,
            }
        )
        for one in found
    ]


def _check(path: str, old: Content | None, new: Content, block: Block) -> None:
    before = () if old is None else old.lines
    check_elision(path, before, new.lines, block.at)
    check_gaps(path, before, new.lines, block.at)
    check_syntax(path, None if old is None else old.text, new.text, block.at)
    if path.endswith(".py"):
        check_python_bodies("" if old is None else old.text, new.text, block.at)


def blob_id(data: bytes) -> str:
    """The id that git gives a file of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _format(block: Block) -> Format:
    if isinstance(block, Hunks):
        return block.format
    return "symbol" if isinstance(block, SymbolEdit) else "whole_file"
