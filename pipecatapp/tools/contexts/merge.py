"""The tool that makes one context of the fixes of similar failures."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.records import fixes
from pipecatapp.records.fixes import Fix
from pipecatapp.tools.code.memory.recall import LOWEST_RATE
from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.workflow import BY_AUTHOR, Context, Ledger, tool

SHOWN: Final = 3
"""Changes in the text of a context; further ones say little more."""
LONGEST_CHANGE: Final = 1200
"""Characters of each of them."""
LONGEST_TEXT: Final = 6000
"""Characters of a context."""


class MergedContext(BaseModel):
    """The error, places and fixes of several similar failures."""

    id: str = Field(description="A short name.")
    about: str = Field(description="Description, in one sentence.")
    text: str = Field(description="The error, its places, and changes that helped; for a prompt.")
    fixes: list[str] = Field(description="Ids of the stored fixes, for `hearth fixes show`.")


class MergedContexts(BaseModel):
    """The suggested contexts."""

    contexts: list[MergedContext] = Field(
        description="One for each kind of failure, the most frequent first."
    )


@tool("context.merge", effect="read", version=1)
async def merge(
    ctx: Context,
    languages: Annotated[
        list[str], Field(description="Only failures in these languages; empty: all.")
    ] = [],  # noqa: B006
    at_least: Annotated[
        int, BY_AUTHOR, Field(description="Fixes of similar failures that make a context.", ge=2)
    ] = 2,
    limit: Annotated[int, BY_AUTHOR, Field(description="Contexts at most.", ge=1, le=20)] = 3,
) -> MergedContexts:
    """Suggest one context for each group of similar failures in the memory of fixes.

    Failures are similar if their errors differ only in names of definitions, numbers and values.
    Only fixes of the same owner that mostly helped are read.
    """
    wanted = {one.lower() for one in languages}
    groups: defaultdict[tuple[str, str], list[Fix]] = defaultdict(list)
    for fix in fixes.find(ctx.service(Ledger), owner=owner_of_run(ctx)):
        if fix.rate >= LOWEST_RATE and (not wanted or fix.language.lower() in wanted):
            groups[fix.pattern, fix.language].append(fix)
    similar = [group for group in groups.values() if len(group) >= at_least]
    similar.sort(key=lambda group: -len(group))  # Stable: of equal ones, the last used first.
    return MergedContexts(contexts=[_context(group) for group in similar[:limit]])


def _context(group: Sequence[Fix]) -> MergedContext:
    pattern, language = group[0].pattern, group[0].language
    places = {
        f"{change.symbol} in {change.path}" if change.symbol else change.path
        for fix in group
        for change in fix.edit
    }
    about = f"{len(group)} failures with {pattern}" + (f" in {language}" if language else "")
    best = sorted(group, key=lambda fix: -fix.rate)[:SHOWN]
    changes = "\n\n".join(f"```diff\n{_lines(fix)}\n```" for fix in best)
    where = ", ".join(sorted(places))[:1000]
    text = f"{about}: {where}. These changes made the tests pass:\n\n{changes}"
    ids = [fix.id for fix in group]
    return MergedContext(id=pattern, about=about, text=text[:LONGEST_TEXT], fixes=ids)


def _lines(fix: Fix) -> str:
    return "\n".join(line for change in fix.edit for line in change.lines)[:LONGEST_CHANGE]
