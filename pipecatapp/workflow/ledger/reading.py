"""Reading a ledger, beside whoever writes it."""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.event import Event, Status
from pipecatapp.workflow.ledger.schema import connect
from pipecatapp.workflow.ledger.values import read_json, unpack

_RUN = """id, workflow, status, conversation, caller, started, ended, title, error,
    request, plan, inputs, outputs, interactive, forked, rerun, spoken,
    CASE family WHEN '' THEN id ELSE family END AS family,
    (SELECT ifnull(sum(prompt_tokens), 0) FROM step WHERE step.run = run.id) AS prompt_tokens,
    (SELECT ifnull(sum(completion_tokens), 0) FROM step WHERE step.run = run.id)
        AS completion_tokens,
    (SELECT ifnull(sum(cost), 0) FROM step WHERE step.run = run.id) AS cost"""


@dataclass(frozen=True)
class RunRow:
    """One run as it lies in the ledger. Large values are fetched by `Reader.value`."""

    id: str
    workflow: str
    status: Status
    conversation: str | None
    caller: str
    started: str
    ended: str | None
    title: str
    error: str | None
    request: str
    plan: str
    inputs: str
    outputs: str | None
    interactive: int
    forked: str | None
    rerun: str | None
    spoken: str | None
    family: str
    prompt_tokens: int
    completion_tokens: int
    cost: float


@dataclass(frozen=True)
class StepRow:
    """The present state of one instance."""

    path: str
    node: str
    tool: str | None
    version: int | None
    effect: str | None
    status: Status
    attempt: int
    started: str
    ended: str | None
    prompt_tokens: int
    completion_tokens: int
    cost: float
    model: str | None
    error: str | None
    input: str | None
    output: str | None
    prompt: str | None
    facts: str | None
    key: str | None


@dataclass(frozen=True)
class Spent:
    """What a run has used so far, restarts included."""

    nodes: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    tries: Mapping[str, int] = field(default_factory=dict)
    """How often each instance has failed and was to be tried again."""


class Reader:
    """Queries on a connection of their own; any thread may ask."""

    def __init__(self, path: Path, *, patience: float) -> None:
        self._connection = connect(path, patience=patience)
        self._connection.execute("PRAGMA query_only = ON")
        self._one_at_a_time = threading.Lock()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """What a query finds; raises `LedgerFailed` where the file cannot be read."""
        try:
            with self._one_at_a_time:
                return self._connection.execute(sql, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise LedgerFailed(f"The ledger could not be read: {error}") from error

    def value(self, column: str | None) -> Any:
        """A value, wherever it lies."""
        return unpack(column, self._blob)

    def _blob(self, name: str) -> bytes:
        found = self.rows("SELECT body FROM blob WHERE sha256 = ?", (name,))
        if not found:
            raise LedgerFailed(f"The ledger is damaged: its blob {name} is missing.")
        return bytes(found[0]["body"])

    def run(self, id: str) -> RunRow | None:
        """One run."""
        found = self.rows(f"SELECT {_RUN} FROM run WHERE id = ?", (id,))
        return RunRow(**dict(found[0])) if found else None

    def runs(
        self,
        *,
        limit: int,
        before: str | None = None,
        workflow: str | None = None,
        conversation: str | None = None,
        status: Status | None = None,
    ) -> list[RunRow]:
        """Newest first; `before` is the id that the last page ended with."""
        wanted = {
            "id <": before,
            "workflow =": workflow,
            "conversation =": conversation,
            "status =": status,
        }
        given = {key: value for key, value in wanted.items() if value is not None}
        where = " AND ".join(f"{key} ?" for key in given) or "1"
        sql = f"SELECT {_RUN} FROM run WHERE {where} ORDER BY id DESC LIMIT ?"
        return [RunRow(**dict(row)) for row in self.rows(sql, [*given.values(), limit])]

    def unfinished(self) -> list[str]:
        """Runs that have begun and not ended, oldest first."""
        return [
            row["id"] for row in self.rows("SELECT id FROM run WHERE ended IS NULL ORDER BY id")
        ]

    def newest(self) -> str:
        """The last name that was given to a run or a note."""
        sql = "SELECT ifnull(max(id), '') AS id FROM (SELECT id FROM run UNION SELECT id FROM note)"
        return str(self.rows(sql)[0]["id"])

    def steps(self, run: str) -> list[StepRow]:
        """Its instances, in the order in which they began."""
        names = ", ".join(StepRow.__dataclass_fields__)
        sql = f"""SELECT {names} FROM step WHERE run = ? ORDER BY
            (SELECT min(seq) FROM event WHERE event.run = step.run AND event.path = step.path)"""
        return [StepRow(**dict(row)) for row in self.rows(sql, (run,))]

    def reasons(self, run: str) -> Mapping[str, str]:
        """Why instances ran although the run that this is a fork of had them, by path."""
        sql = """SELECT path, data ->> '$.why' AS why FROM event
            WHERE run = ? AND type = 'node.running' AND why IS NOT NULL ORDER BY seq"""
        return {row["path"]: row["why"] for row in self.rows(sql, (run,))}

    def events(self, run: str, *, after: int, limit: int = 500) -> list[Event]:
        """The next events of a run."""
        sql = "SELECT * FROM event WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
        rows = self.rows(sql, (run, after, limit))
        return [Event(**{**dict(row), "data": read_json(row["data"])}) for row in rows]

    def all_events(self, run: str, *, after: int) -> Iterator[Event]:
        """All events of a run after one, read page by page."""
        while page := self.events(run, after=after):
            yield from page
            after = page[-1].seq

    def spent(self, run: str) -> Spent:
        """Sums over the run. Time between a crash and the resume is not counted, nor is
        time after a question in which nothing else happened."""
        sums = self.rows(
            """SELECT ifnull(sum(attempt), 0) AS nodes,
                ifnull(sum(prompt_tokens + completion_tokens), 0) AS tokens,
                ifnull(sum(cost), 0) AS cost
            FROM step WHERE run = ?""",
            (run,),
        )[0]
        time = self.rows(
            """SELECT ifnull(sum((julianday(at) - julianday(since)) * 86400.0), 0) AS seconds FROM (
                SELECT type, at, lag(at) OVER (ORDER BY seq) AS since,
                lag(type) OVER (ORDER BY seq) AS before FROM event WHERE run = ?)
            WHERE since IS NOT NULL AND type != 'run.resumed' AND before != 'node.waiting'
                AND at > since""",
            (run,),
        )[0]
        tries = self.rows(
            """SELECT path, count(*) AS times FROM event
            WHERE run = ? AND type = 'node.queued' GROUP BY path""",
            (run,),
        )
        return Spent(
            sums["nodes"],
            sums["tokens"],
            sums["cost"],
            time["seconds"],
            {row["path"]: row["times"] for row in tries},
        )
