"""Only what is new: items that no earlier run has handled."""

import hashlib
import json
from typing import Annotated, Any

from pydantic import BaseModel, Field

from pipecatapp.workflow import BY_AUTHOR, Context, Ledger, ToolFailed, tool


class NewItems(BaseModel):
    """The items that are left to process."""

    items: list[Any] = Field(description="Those that are new, in their order.")
    known: int = Field(description="How many were handled before, or are by another run now.")
    later: int = Field(description="How many are new, too, but are left to the next run.")


@tool("items.new", effect="read", version=1)
async def new(
    ctx: Context,
    items: Annotated[list[Any], Field(description="All there are now.", max_length=100_000)],
    by: Annotated[
        str, Field(description="Field that tells one item from another; empty: the whole item.")
    ] = "",
    memory: Annotated[
        str, BY_AUTHOR, Field(description="Name under which is remembered; empty: this node's own.")
    ] = "",
    limit: Annotated[int, Field(description="Maximum number of results.", ge=1)] = 1000,
) -> NewItems:
    """Give the items that no earlier run of this has handled. They count as handled when the run is
    done; when it fails or is cancelled, the next one is given them again.
    """
    ledger = ctx.service(Ledger)
    name = memory or _own_memory(ledger, ctx)
    marked = [(_mark(item, by), item) for item in items]
    rows = ledger.read.rows("SELECT item, run FROM handled WHERE memory = ?", (name,))
    others = {row["item"] for row in rows if row["run"] != ctx.run}
    left = {mark: item for mark, item in reversed(marked) if mark not in others}
    fresh = [mark for mark in dict.fromkeys(mark for mark, _ in marked) if mark in left]
    insert = "INSERT OR IGNORE INTO handled (memory, item, run) VALUES (?, ?, ?)"
    await ledger.submit("", [(insert, (name, mark, ctx.run)) for mark in fresh[:limit]])
    own = _own(ledger, name, ctx.run)
    return NewItems(
        items=[left[mark] for mark in fresh[:limit] if mark in own],
        known=len({mark for mark, _ in marked}) - len(fresh),
        later=len(fresh[limit:]),
    )


def _own(ledger: Ledger, memory: str, run: str) -> set[str]:
    """Return the items that this run has claimed: a concurrent run may have claimed others."""
    sql = "SELECT item FROM handled WHERE memory = ? AND run = ?"
    return {row["item"] for row in ledger.read.rows(sql, (memory, run))}


def _own_memory(ledger: Ledger, ctx: Context) -> str:
    """The same for every run of a workflow: its id and the node, whatever the visit."""
    run = ledger.read.run(ctx.run)
    path = "/".join(part.partition("[")[0].partition("#")[0] for part in ctx.path.split("/"))
    return f"{run.workflow if run else ''}:{path}"


def _mark(item: Any, by: str) -> str:
    if by and not (isinstance(item, dict) and by in item):
        raise ToolFailed(f"An item has no field {by!r}: {str(item)[:200]!r}")
    told = json.dumps(item[by] if by else item, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()
