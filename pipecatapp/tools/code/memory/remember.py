"""The tool that stores a change that made a failing test pass, and counts how stored ones did."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from pipecatapp.records import fixes
from pipecatapp.records.fixes import Attempt, Fix, SymbolChange
from pipecatapp.tools.code.context.candidates import Sources
from pipecatapp.tools.code.language.languages import SOURCE_NAMES
from pipecatapp.tools.code.memory.changes import NotKept, symbol_changes
from pipecatapp.tools.code.memory.recall import pattern_of
from pipecatapp.tools.code.testing.comparing import why_broken, why_not_fixed
from pipecatapp.tools.code.testing.outcome import Tested
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.tools.workspace.state import worktree_of
from pipecatapp.workflow import Context, Ledger, tool


class Remembered(BaseModel):
    """The result of storing a fix."""

    id: str | None = Field(description="The stored fix; null if none is stored.")
    green: bool = Field(description="Whether the same test went from failing to passing.")
    reason: str = Field(description="Why it is not green, or not stored; else empty.")


@tool(
    "code.remember", effect="external", version=1, workspace=True, idempotent=True, approve="never"
)
async def remember(
    ctx: Context,
    before: Annotated[Tested, Field(description="code.test before the change.")],
    after: Annotated[
        Tested | None,
        Field(description="The same tests after it; null if the change could not be applied."),
    ],
    other_before: Annotated[
        Tested | None, Field(description="code.test of other tests before the change, if any.")
    ] = None,
    other_after: Annotated[
        Tested | None, Field(description="The other tests after the change, if any.")
    ] = None,
    fix: Annotated[
        str, Field(description="The id of the stored fix that was tried; empty for a new one.")
    ] = "",
) -> Remembered:
    """Store the change of the workspace as a fix, if the same test failed before and passes now.

    With `fix`, count how that stored fix did instead: a failure lowers its success rate.
    """
    reason = _why_not_green(before, after, other_before, other_after)
    ledger, owner = ctx.service(Ledger), owner_of_run(ctx)
    attempt = Attempt(run=ctx.run, path=ctx.path, applied=after is not None, green=not reason)
    if fix:
        counted = await fixes.count(ledger, fix, attempt, owner=owner)
        missing = "" if counted else "The stored fix was removed meanwhile."
        return Remembered(
            id=counted.id if counted else None, green=attempt.green, reason=reason or missing
        )  # fmt: skip
    if reason:
        return Remembered(id=None, green=False, reason=reason)
    try:
        stored = await _stored(ctx, ledger, before, attempt, owner)
    except NotKept as error:
        return Remembered(id=None, green=True, reason=str(error))
    except ValidationError as error:
        problems = "; ".join(problem["msg"] for problem in error.errors())
        return Remembered(id=None, green=True, reason=f"It cannot be stored: {problems}.")
    return Remembered(id=stored.id, green=True, reason="")


def _why_not_green(
    before: Tested, after: Tested | None, other_before: Tested | None, other_after: Tested | None
) -> str:
    if after is None:
        return "The change could not be applied."
    reason = why_not_fixed(before, after)
    return reason or (why_broken(other_before, other_after) if other_after is not None else "")


async def _stored(
    ctx: Context, ledger: Ledger, before: Tested, attempt: Attempt, owner: str
) -> Fix:
    """Store the change between the start of the workspace and now."""
    if before.error is None:
        raise NotKept("The failing test has no error by which the change could be found again.")
    worktree = worktree_of(ctx)
    diff = await worktree.diff(await worktree.base(), await worktree.head())
    changes = await symbol_changes(Sources(ctx, workspace(ctx)), diff)
    return await fixes.remember(
        ledger, before.error.signature, pattern_of(before.error), _language(changes), changes,
        attempt, owner=owner,
    )  # fmt: skip


def _language(changes: Iterable[SymbolChange]) -> str:
    """The language of most changes; empty if it is not known."""
    suffixes = (PurePosixPath(change.path).suffix.lower() for change in changes)
    counts = Counter(filter(None, map(SOURCE_NAMES.get, suffixes)))
    return next((name for name, _ in counts.most_common(1)), "")
