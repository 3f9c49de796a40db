"""The tool that collects source code for a model, within a budget of tokens."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, cast

from pydantic import BaseModel, Field

from pipecatapp.tools.code.context.candidates import (
    Candidate,
    Reason,
    Sources,
    Suspicious,
    candidates_of_error,
    candidates_of_suspects,
    candidates_used,
)
from pipecatapp.tools.code.context.repeated import without_repeated
from pipecatapp.tools.code.context.surroundings import surroundings
from pipecatapp.tools.code.edit.paths import fits
from pipecatapp.tools.code.errors import ProgramError
from pipecatapp.tools.code.map.tags import has_grammar, tags_of
from pipecatapp.tools.code.symbols.symbols import source_files
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.memory.tokens import estimated, shortened
from pipecatapp.workflow import BY_AUTHOR, Context, ModelFacts, ToolFailed, tool

UNKNOWN_CONTEXT: Final = 4096
"""Tokens of a model that does not say how many it takes."""
LARGEST_BUDGET: Final = 6000
"""Tokens: small models get worse with more."""
LARGEST_WIDE: Final = 16_000
"""Tokens of a wide context: for a second look, when the usual one was not enough."""
SMALLEST_MAP: Final = 32
"""Tokens: less does not hold a file and one of its definitions."""
MAP_TITLE: Final = "Definitions near these, with their lines"
RUN_OF_TICKS: Final = re.compile(r"^\s*(`{3,})", re.MULTILINE)


class Excerpt(BaseModel):
    """Lines of a file that the text shows."""

    path: str
    symbol: str = Field(description="The qualified name; empty for lines outside a definition.")
    start: int
    end: int
    reason: Reason = Field(
        description="`error`: on the stack; `suspect`; `used` by those; `file`: asked for."
    )
    whole: bool = Field(description="False where only the lines next to the error fit.")


class CodeContext(BaseModel):
    """Source code as text for a prompt."""

    text: str = Field(
        description="Each excerpt in a fence below its path, lines and name; then, if there is"
        " room, a map of the definitions that they use or that use them."
    )
    excerpts: list[Excerpt] = Field(description="The parts of the text, the most important first.")
    left_out: list[str] = Field(description="Names that did not fit, as `path:line name`.")
    no_map: str = Field(description="Why the files cannot be mapped; empty if they can.")
    tokens: int = Field(description="Estimate for `text`; at most the budget.")
    output: str = Field(
        description="The given output without blank lines, rules, wide headings, and what `text` or"
        " the message of the error shows."
    )


@tool("code.context", effect="read", version=3, workspace=True)
async def context(
    ctx: Context,
    error: Annotated[
        ProgramError | None, Field(description="The `error` of code.run or code.test.")
    ] = None,
    suspects: Annotated[
        list[Suspicious], Field(description="More places, such as those of code.localise.")
    ] = [],  # noqa: B006
    files: Annotated[list[str], Field(description="Files to show whole, if they fit.")] = [],  # noqa: B006
    protected: Annotated[
        list[str], Field(description="Patterns of files that are marked as not to be changed.")
    ] = [],  # noqa: B006
    output: Annotated[
        str, Field(description="The program's output, to be shown beside the text and the error.")
    ] = "",
    model: Annotated[str, BY_AUTHOR, Field(description="The model that will read the text.")] = "",
    budget: Annotated[
        int | None,
        BY_AUTHOR,
        Field(
            description="Tokens of the text; without it half of the model's context, but not more"
            " than 6,000.",
            ge=64,
        ),
    ] = None,
    *,
    wide: Annotated[
        bool,
        BY_AUTHOR,
        Field(
            description="Take three quarters of the model's context, but not more than 16,000"
            " tokens, where no budget is given."
        ),
    ] = False,
) -> CodeContext:
    """Collect source code for an error: the functions on its stack, and what they use.

    The function in which the error happened is always there. If it does not fit, its lines next to
    the error are. The rest of the budget is filled with lines of code.map.
    """
    root = workspace(ctx)
    facts = cast("ModelFacts", ctx.services.get(ModelFacts, ModelFacts()))
    size = facts.context(model) or UNKNOWN_CONTEXT
    usual = min(LARGEST_WIDE, size * 3 // 4) if wide else min(LARGEST_BUDGET, size // 2)
    room = budget or usual
    sources = Sources(ctx, root)
    found = await candidates_of_error(sources, error) if error else []
    found += await candidates_of_suspects(sources, suspects)
    code_files = await source_files(root)
    found += await candidates_used(sources, code_files, _distinct(found))
    places = filter(None, map(sources.place, files))
    found += [await sources.around(place, None, "file") for place in places]
    shown, texts, left_out = _fitting(sources, _distinct(found), room, protected)
    text, no_map = "\n".join(texts), ""
    if shown:
        try:
            text = await _with_map(ctx, root, code_files, [one for one, _ in shown], text, room)
        except ToolFailed as reason:
            no_map = str(reason)
    return CodeContext(
        text=text,
        excerpts=[
            Excerpt(
                path=one.path, symbol=one.symbol, start=one.start, end=one.end,
                reason=one.reason, whole=whole,
            )
            for one, whole in shown
        ],
        left_out=left_out,
        no_map=no_map,
        tokens=estimated(text) if text else 0,
        output=without_repeated(output, error, _code(sources, shown)),
    )  # fmt: skip


async def _with_map(
    ctx: Context, root: Path, files: Sequence[str], shown: Sequence[Candidate], text: str, room: int
) -> str:
    """Add a map to the excerpts if there is room and something to show.

    Raises `ToolFailed` if the files cannot be read in the sandbox.
    """
    left = room - estimated(f"{text}\n{_fenced(MAP_TITLE, '')}")
    if left < SMALLEST_MAP:
        return text
    # Files without a grammar have no uses, so no excerpt leads to them.
    tags = await tags_of(ctx, root, [path for path in files if has_grammar(path)])
    lines = await asyncio.to_thread(surroundings, tags, shown, left)
    whole = f"{text}\n{_fenced(MAP_TITLE, lines.rstrip())}"
    return whole if lines and estimated(whole) <= room else text


def _distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Without those that lie in an earlier one."""
    kept: list[Candidate] = []
    for one in candidates:
        if not any(
            one.path == other.path and other.start <= one.start and one.end <= other.end
            for other in kept
        ):
            kept.append(one)
    return kept


def _fitting(
    sources: Sources, candidates: Sequence[Candidate], room: int, protected: Sequence[str]
) -> tuple[list[tuple[Candidate, bool]], list[str], list[str]]:
    """As many as fit, in their order; the first one is cut where it alone does not fit.

    Returns those that fit and whether each is whole, their texts, and the names of the others.
    """
    shown: list[tuple[Candidate, bool]] = []
    texts: list[str] = []
    left_out: list[str] = []
    used = 0
    for number, candidate in enumerate(candidates):
        one, text = candidate, _text(sources, candidate, protected)
        if number == 0 and estimated(text) > room:
            one, text = _cut(sources, candidate, room, protected)
        size = estimated(f"\n{text}" if texts else text)
        if used + size > room:
            left_out.append(f"{one.path}:{one.start} {one.symbol}".rstrip())
            continue
        used += size
        shown.append((one, one == candidate))
        texts.append(text)
    return shown, texts, left_out


def _code(
    sources: Sources, shown: Iterable[tuple[Candidate, bool]]
) -> list[str]:  # fmt: skip
    """All lines of the excerpts."""
    return [
        line
        for one, _ in shown
        for line in (sources.lines(one.path) or [])[one.start - 1 : one.end]
    ]


def _cut(
    sources: Sources, one: Candidate, room: int, protected: Sequence[str]
) -> tuple[Candidate, str]:
    """The lines next to the error, as many as fit."""
    middle = one.line or one.start
    around = (one.end - one.start) // 2
    while True:
        cut = replace(one, start=max(one.start, middle - around), end=min(one.end, middle + around))
        text = _text(sources, cut, protected)
        if estimated(text) <= room or not around:
            return cut, shortened(text, room)
        around = around * 3 // 4


def _text(sources: Sources, one: Candidate, protected: Sequence[str]) -> str:
    code = "\n".join((sources.lines(one.path) or [])[one.start - 1 : one.end])
    name = f", `{one.symbol}`" if one.symbol else ""
    mark = " (must not be changed)" if any(fits(one.path, each) for each in protected) else ""
    return _fenced(f"{one.path}, lines {one.start} to {one.end}{name}{mark}", code)


def _fenced(title: str, text: str) -> str:
    ticks = max([2, *(len(run) for run in RUN_OF_TICKS.findall(text))]) + 1
    fence = "`" * ticks
    return f"{title}:\n{fence}\n{text}\n{fence}\n"
