"""The tool that lists the runs of the last days."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import BaseModel, Field

from pipecatapp.tools.autonomy.digest import SHOWN
from pipecatapp.tools.model.behalf import owner_of_run
from pipecatapp.workflow import Context, Ledger, tool
from pipecatapp.workflow.storage import Reader, RunRow

MOST: Final = 500
"""Runs that are read."""


class RecentRun(BaseModel):
    """One run that has ended."""

    id: str
    workflow: str
    status: str
    title: str
    result: str
    error: str


class RecentRuns(BaseModel):
    """The runs of the last days."""

    runs: list[RecentRun] = Field(description="Id, request and end of each, the oldest first.")


@tool("runs.recent", effect="read", version=1)
async def recent(
    ctx: Context,
    days: Annotated[int, Field(description="How many days back.", ge=1, le=366)] = 7,
    limit: Annotated[int, Field(description="Runs at most, the newest.", ge=1, le=MOST)] = 100,
) -> RecentRuns:
    """List the runs that ended in the last days, without runs of the workflow that asks.

    Only runs of the same owner are read.
    """
    reader = ctx.service(Ledger).read
    since = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
    own = reader.run(ctx.run)
    rows = [
        row
        for row in reader.runs(limit=MOST, since=since[:23] + "Z", owner=owner_of_run(ctx))
        if row.ended is not None and (own is None or row.workflow != own.workflow)
    ]
    return RecentRuns(runs=[_run(reader, row) for row in reversed(rows[:limit])])


def _run(reader: Reader, row: RunRow) -> RecentRun:
    result = "" if row.outputs is None else str(reader.value(row.outputs))
    return RecentRun(
        id=row.id,
        workflow=row.workflow,
        status=row.status,
        title=row.title[:SHOWN],
        result=result[:SHOWN],
        error=(row.error or "")[:SHOWN],
    )
