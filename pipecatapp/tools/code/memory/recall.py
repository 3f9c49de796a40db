"""The tool that finds stored fixes for an error and fits them to the project in the workspace."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.records import fixes
from pipecatapp.tools.code.context.candidates import (
    Sources,
    Suspicious,
    candidates_of_error,
    candidates_of_suspects,
)
from pipecatapp.tools.code.errors import ProgramError
from pipecatapp.tools.code.errors.result import signature
from pipecatapp.tools.code.memory.places import applied
from pipecatapp.tools.code.symbols.symbols import source_files
from pipecatapp.tools.files.place import workspace
from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.workflow import Context, Ledger, tool

LOWEST_RATE: Final = 0.25
"""Fixes with a lower estimated success rate are not offered. A fix that worked once is offered
until its sixth failure.
"""
PLACED: Final = 50
"""Stored fixes that are looked for in the project, at most."""


class RecalledFix(BaseModel):
    """A stored fix that applies in this project."""

    id: str
    answer: str = Field(description="The change as a unified diff, for `code.edit`.")
    asked: int = Field(description="How often it was tried or found.")
    applied: int = Field(description="How often its change could be applied.")
    green: int = Field(description="How often the failing test passed then.")


class Recalled(BaseModel):
    """The fixes to try."""

    fixes: list[RecalledFix] = Field(
        description="Id, answer and counts of each, the most likely to help first."
    )


@tool("code.recall", effect="read", version=1, workspace=True)
async def recall(
    ctx: Context,
    error: Annotated[ProgramError, Field(description="The `error` of code.run or code.test.")],
    suspects: Annotated[
        list[Suspicious],
        Field(description="Places that may have the bug, such as those of code.localise."),
    ] = [],  # noqa: B006
    limit: Annotated[int, Field(description="Fixes at most.", ge=1, le=20)] = 3,
) -> Recalled:
    """Find changes that made a test with the same error pass before, here or in another project.

    Only changes whose place in this project is certain are returned.
    """
    root = workspace(ctx)
    pattern = pattern_of(error)
    stored = fixes.matching(
        ctx.service(Ledger), error.signature, pattern, owner=owner_of_run(ctx)
    )  # fmt: skip
    likely = [fix for fix in stored if fix.rate >= LOWEST_RATE][:PLACED]
    if not likely:
        return Recalled(fixes=[])
    sources, files = Sources(ctx, root), await source_files(root)
    candidates = await candidates_of_error(sources, error)
    candidates += await candidates_of_suspects(sources, suspects)
    near = [(one.path, one.symbol) for one in candidates if one.symbol]
    found: dict[str, RecalledFix] = {}
    for fix in likely:
        answer = await applied(sources, root, files, fix, near)
        if answer is not None:
            # Two stored fixes may become the same change here: the likelier one is enough.
            found.setdefault(answer, _recalled(fix, answer))
        if len(found) == limit:
            break
    return Recalled(fixes=list(found.values()))


def pattern_of(error: ProgramError) -> str:
    """Return the signature of an error without its symbol."""
    return signature(error.type, error.message, None)


def _recalled(fix: fixes.Fix, answer: str) -> RecalledFix:
    return RecalledFix(
        id=fix.id, answer=answer, asked=fix.asked, applied=fix.applied, green=fix.green
    )  # fmt: skip
