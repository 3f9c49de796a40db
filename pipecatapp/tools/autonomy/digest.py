"""The tool that sums up earlier runs that are like a request."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.tools.tasks.find import words
from pipecatapp.workflow import Context, Ledger, tool
from pipecatapp.workflow.storage import Reader, RunRow

LOOKED_AT: Final = 300
"""Runs that are compared, the newest first."""
SHOWN: Final = 200
"""Characters of a request, an error or a result."""
FAILURES: Final = 3
"""Failed steps that are named for each run."""


class Digest(BaseModel):
    """What earlier runs show."""

    text: str = Field(description="A line or more for each run; empty if none is like it.")
    runs: list[str] = Field(description="The ids of these runs.")


@tool("runs.digest", effect="read", version=1)
async def digest(
    ctx: Context,
    text: Annotated[str, Field(description="Description of the task.", min_length=1)],
    limit: Annotated[int, Field(description="Runs at most.", ge=1, le=20)] = 5,
) -> Digest:
    """Sum up earlier runs with words of a request: what was asked, how it ended, and what failed.

    Only runs of the same owner are read.
    """
    reader, asked = ctx.service(Ledger).read, words(text)
    rows = [
        row
        for row in reader.runs(limit=LOOKED_AT, owner=owner_of_run(ctx))
        if row.id != ctx.run and row.ended is not None
    ]
    alike = [(len(asked & words(row.title)), row) for row in rows]
    best = sorted((pair for pair in alike if pair[0]), key=lambda pair: -pair[0])[:limit]
    return Digest(
        text="\n".join(_line(reader, row) for _, row in best), runs=[row.id for _, row in best]
    )


def _line(reader: Reader, row: RunRow) -> str:
    failed = [step for step in reader.steps(row.id) if step.status == "failed"]
    parts = [f"* Run {row.id} ({row.workflow}), {row.status}: {row.title[:SHOWN]}"]
    if row.error:
        parts.append(f"  It failed: {row.error[:SHOWN]}")
    parts += [
        f"  Failed step {step.path}: {(step.error or '')[:SHOWN]}" for step in failed[:FAILURES]
    ]
    if row.outputs is not None:
        parts.append(f"  It gave: {str(reader.value(row.outputs))[:SHOWN]}")
    return "\n".join(parts)
