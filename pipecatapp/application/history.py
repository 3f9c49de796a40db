"""Search and filter the runs of a ledger."""

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from pipecatapp.workflow import Engine, RunSummary, Status
from pipecatapp.workflow.storage import RunFilter


class RunQuery(BaseModel):
    """Which runs are wanted, the newest first; a field without a value is not compared."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(50, ge=1, le=500)
    before: str | None = Field(None, max_length=200)
    """The run that the page before ended with."""
    text: str | None = Field(None, max_length=1000)
    """Words, or beginnings of words, that each run has in its request, inputs, outputs, error,
    workflow or id."""
    workflow: str | None = Field(None, max_length=200)
    conversation: str | None = Field(None, max_length=200)
    status: Status | None = None
    caller: str | None = Field(None, max_length=200)
    """The trigger of the run: `chat`, `api`, `cli`, `voice`, `schedule NAME`."""
    person: str | None = Field(None, max_length=200)
    """The name of the key that the run belongs to."""
    since: datetime | None = None
    until: datetime | None = None
    """The first moment that is too late. A moment without a zone is in UTC."""

    def filters(self) -> RunFilter:
        """Return the fields as the ledger compares them."""
        return RunFilter(
            text=self.text,
            workflow=self.workflow,
            conversation=self.conversation,
            status=self.status,
            caller=self.caller,
            owner=self.person,
            since=ledger_time(self.since),
            until=ledger_time(self.until),
        )


class RunList(BaseModel):
    """`next` is the `before` of the following page; null on the last one."""

    runs: list[RunSummary]
    next: str | None


class RunChoices(BaseModel):
    """The values that runs have in the fields of a query."""

    workflows: list[str]
    callers: list[str]
    people: list[str]


def search(engine: Engine, query: RunQuery, owner: str = "") -> RunList:
    """Return one page of runs; of other owners only for the built-in key, whose name is empty."""
    filters = query.filters()
    if owner:
        if query.person not in (None, owner):
            return RunList(runs=[], next=None)
        filters["owner"] = owner
    found = engine.runs(limit=query.limit + 1, before=query.before, **filters)
    more = len(found) > query.limit
    return RunList(runs=found[: query.limit], next=found[query.limit - 1].id if more else None)


def choices(engine: Engine, owner: str = "") -> RunChoices:
    """Return the values to choose from; those of other owners only for the built-in key."""
    values = engine.ledger.read.run_values(owner or None)
    return RunChoices(workflows=values.workflows, callers=values.callers, people=values.owners)


def ledger_time(moment: datetime | None) -> str | None:
    """Return a moment as the ledger has times; without a zone it is in UTC."""
    if moment is None:
        return None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
