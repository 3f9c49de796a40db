"""The tool that applies a model's answer to the workspace: exactly, or not at all."""

import asyncio
import difflib
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from pipecatapp.tools.code.edit.change import FileEdit, edit_file, group
from pipecatapp.tools.code.edit.matching.ladder import Rung
from pipecatapp.tools.code.edit.paths import allowed
from pipecatapp.tools.code.edit.reading.answer import Answer, parse_answer
from pipecatapp.tools.code.edit.reading.blocks import Block, Format, SymbolEdit
from pipecatapp.tools.code.edit.refusal import Refusal, Refused
from pipecatapp.tools.code.edit.transaction import read_file, write_all
from pipecatapp.tools.files.place import workspace
from pipecatapp.workflow import BY_AUTHOR, Context, ToolFailed, tool

SHOWN: Final = 100_000
"""Characters of the diff and of the prose in the result."""


class SymbolSource(BaseModel):
    """A whole definition, as a model fills it in under a JSON schema."""

    path: str
    symbol: str = Field(description="Its qualified name, such as `Class.method`.")
    source: str = Field(description="All of its lines, decorators included.")


class EditedFile(BaseModel):
    """A file that was changed."""

    path: str
    change: Literal["added", "changed", "removed"]
    format: Format
    rung: Rung = Field(description="How its lines were found; of several edits, the lowest rung.")
    before: str | None = Field(description="SHA-256 before, in hex; null where it is new.")
    after: str | None = Field(description="SHA-256 afterwards; null where it was removed.")


class Edited(BaseModel):
    """The result of an edit. A refused answer is not an error, so that a document can ask again."""

    applied: bool = Field(description="Whether all of it was applied; otherwise nothing was.")
    files: list[EditedFile] = Field(description="The changed files; empty where nothing was.")
    diff: str = Field(description="The change as a unified diff; a long one is cut.")
    prose: str = Field(description="Text of the answer that belongs to no edit.")
    refusals: list[Refusal] = Field(description="Each edit that could not be applied, and why.")
    hint: str = Field(description="The refusals as a text for the next prompt; else empty.")


@tool("code.edit", effect="workspace", version=1)
async def edit(
    ctx: Context,
    answer: Annotated[
        str | SymbolSource | list[SymbolSource],
        Field(
            description="Text with whole files in fences, SEARCH/REPLACE blocks or unified diffs,"
            " or definitions to replace."
        ),
    ],
    path: Annotated[str, Field(description="The file of edits that name none.")] = "",
    may_touch: Annotated[
        list[str],
        BY_AUTHOR,
        Field(description="Patterns of files to change, such as `src/**`; empty allows all."),
    ] = [],  # noqa: B006
    protected: Annotated[
        list[str],
        BY_AUTHOR,
        Field(description="Patterns of files never to change, such as the failing test."),
    ] = [],  # noqa: B006
) -> Edited:
    """Apply a model's answer to files of the workspace, all of its edits or none.

    An edit is applied only where its place is certain: exact, or unique up to white space.
    """
    root = workspace(ctx)
    parsed = await asyncio.to_thread(_parsed, answer, path)
    rules = (may_touch, protected)
    edits, refusals = await edits_of_files(ctx, root, parsed.blocks, *rules)
    changes = [one.change for one in edits if one.change.before != one.change.after]
    if not parsed.blocks:
        refusals.append(
            _refusal("", Refused("no_block", "The answer does not contain an edit of a file."))
        )
    elif not refusals and not changes:
        refusals.append(_refusal("", Refused("no_op", "The answer changes nothing.")))
    if not refusals:
        try:
            await asyncio.to_thread(write_all, root, changes)
        except OSError as error:
            raise ToolFailed(f"The files cannot be written: {error.strerror or error}.") from error
    return await asyncio.to_thread(_result, parsed, edits, refusals)


def _parsed(answer: str | SymbolSource | list[SymbolSource], path: str) -> Answer:
    if isinstance(answer, str):
        return parse_answer(answer, path)
    sources = answer if isinstance(answer, list) else [answer]
    blocks: list[Block] = [
        SymbolEdit(one.path or path, number, one.symbol, tuple(one.source.splitlines()))
        for number, one in enumerate(sources, 1)
    ]
    return Answer(blocks)


async def edits_of_files(
    ctx: Context, root: Path, blocks: Sequence[Block],
    may_touch: Sequence[str], protected: Sequence[str],
) -> tuple[list[FileEdit], list[Refusal]]:  # fmt: skip
    """Work out every changed file in memory; what cannot be applied is a refusal.

    Raises `ToolFailed` for a file that cannot be read.
    """
    edits: list[FileEdit] = []
    refusals: list[Refusal] = []
    places: dict[str, list[Block]] = {}
    for block in blocks:
        try:
            place = allowed(root, block.path, may_touch, protected) if block.path else ""
            places.setdefault(place, []).append(block)
        except Refused as error:
            refusals.append(_refusal(block.path, error, block.at))
    for place, of_file in places.items():
        try:
            there = await asyncio.to_thread(read_file, root, place) if place else None
            edits.append(await edit_file(ctx, place, there, group(of_file)))
        except Refused as error:
            refusals.append(_refusal(place, error, of_file[0].at))
        except OSError as error:
            raise ToolFailed(f"{place!r} cannot be read: {error.strerror or error}.") from error
    return edits, refusals


def _refusal(path: str, error: Refused, at: int = 0) -> Refusal:
    return Refusal(
        reason=error.reason,
        message=error.message,
        path=path,
        at=error.at or at,
        candidates=error.candidates,
    )


def _result(parsed: Answer, edits: Sequence[FileEdit], refusals: list[Refusal]) -> Edited:
    done = [] if refusals else [one for one in edits if one.change.before != one.change.after]
    return Edited(
        applied=not refusals,
        files=[_file(one) for one in done],
        diff="".join(map(_diff, done))[:SHOWN],
        prose=parsed.prose[:SHOWN],
        refusals=refusals,
        hint="\n\n".join(map(_hint, refusals)),
    )


def _file(one: FileEdit) -> EditedFile:
    before, after = one.change.before, one.change.after
    facts: dict[str, Any] = {
        "path": one.change.path,
        "change": "added" if before is None else "removed" if after is None else "changed",
        "format": one.format,
        "rung": one.rung,
        "before": None if before is None else hashlib.sha256(before).hexdigest(),
        "after": None if after is None else hashlib.sha256(after).hexdigest(),
    }
    return EditedFile.model_validate(facts)


def _diff(one: FileEdit) -> str:
    change = one.change
    sides = [None if side is None else _lines(side) for side in (change.before, change.after)]
    names = ["/dev/null" if side is None else prefix + change.path
             for prefix, side in zip(("a/", "b/"), sides, strict=True)]  # fmt: skip
    old, new = names
    lines = difflib.unified_diff(sides[0] or [], sides[1] or [], old, new)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(data: bytes) -> list[str]:
    return [f"{line}\n" for line in data.decode().split("\n")[:-1]] + [
        last for last in data.decode().split("\n")[-1:] if last
    ]


def _hint(refusal: Refusal) -> str:
    shown = [f"line {one.line}:\n{one.text}" for one in refusal.candidates]
    named = not refusal.path or refusal.path in refusal.message
    path = "" if named else f"{refusal.path}: "
    return "\n".join([f"{path}{refusal.message}", *shown])
