"""Read a ledger while another process may write it."""

import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from pipecatapp.workflow.ledger.clock import seconds_between
from pipecatapp.workflow.ledger.errors import LedgerFailed
from pipecatapp.workflow.ledger.event import Event, Status
from pipecatapp.workflow.ledger.schema import connect
from pipecatapp.workflow.ledger.values import joined, read_json, unpack

_RUN = """id, workflow, status, conversation, caller, started, ended, title, error,
    request, plan, inputs, outputs, interactive, forked, rerun, spoken, owner,
    CASE family WHEN '' THEN id ELSE family END AS family,
    (SELECT ifnull(sum(prompt_tokens), 0) FROM step WHERE step.run = run.id) AS prompt_tokens,
    (SELECT ifnull(sum(completion_tokens), 0) FROM step WHERE step.run = run.id)
        AS completion_tokens,
    (SELECT ifnull(sum(cost), 0) FROM step WHERE step.run = run.id) AS cost"""


WORD: Final = re.compile(r"[^\W_]+")
"""A word of a search, as the tokenizer of SQLite separates words."""


class RunFilter(TypedDict, total=False):
    """The filter of a list of runs; a field that is None or missing is not compared.

    `text`: words that each run contains, or prefixes of them, in its request, inputs, outputs,
    error, workflow or id. `owner` is the name of a key. `since` and `until` (excluded) limit the
    start of the run: ISO 8601, UTC, milliseconds, like times in the ledger.
    """

    text: str | None
    workflow: str | None
    conversation: str | None
    status: Status | None
    caller: str | None
    owner: str | None
    since: str | None
    until: str | None


_COMPARED: Final = {
    "before": "id <",
    "workflow": "workflow =",
    "conversation": "conversation =",
    "status": "status =",
    "caller": "caller =",
    "owner": "owner =",
    "since": "started >=",
    "until": "started <",
}


@dataclass(frozen=True)
class RunRow:
    """The row of one run. Large values are loaded by `Reader.value`."""

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
    owner: str
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


_HAS_WORDS: Final = """id IN (SELECT run_text.run FROM run_fts
    JOIN run_text ON run_text.number = run_fts.rowid WHERE run_fts MATCH ?)"""
_STEP = tuple(StepRow.__dataclass_fields__)


@dataclass(frozen=True)
class RunValues:
    """The values that runs have in the fields of a filter, sorted."""

    workflows: list[str]
    callers: list[str]
    owners: list[str]


@dataclass(frozen=True)
class Spent:
    """Usage of a run so far, including before restarts."""

    nodes: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    tries: Mapping[str, int] = field(default_factory=dict)
    """How often each instance has failed and was to be tried again."""


@dataclass(frozen=True)
class ToolTime:
    """How one call of a tool ended, and how long it took."""

    tool: str
    status: Status
    seconds: float


class Reader:
    """Queries on a connection for each thread: a long one keeps no other thread waiting."""

    def __init__(self, path: Path, *, patience: float) -> None:
        self.path, self._patience = path, patience
        self._thread = threading.local()
        self._connections: list[tuple[sqlite3.Connection, threading.Lock]] = []
        self._closed = False
        self._lock = threading.Lock()
        self._connection()

    def close(self) -> None:
        """End the connections, each after the query that it is busy with."""
        with self._lock:
            self._closed = True
        for connection, in_use in self._connections:
            with in_use:
                connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Rows of a query; raises `LedgerFailed` where the file cannot be read."""
        connection, in_use = self._connection()
        try:
            with in_use:
                return connection.execute(sql, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise LedgerFailed(f"The ledger could not be read: {error}") from error

    def _connection(self) -> tuple[sqlite3.Connection, threading.Lock]:
        """The connection of this thread."""
        if not hasattr(self._thread, "connection"):
            connection = connect(self.path, patience=self._patience)
            connection.execute("PRAGMA query_only = ON")
            with self._lock:
                if self._closed:
                    connection.close()
                    raise LedgerFailed("The ledger could not be read: it is closed.")
                self._thread.connection = (connection, threading.Lock())
                self._connections.append(self._thread.connection)
        own: tuple[sqlite3.Connection, threading.Lock] = self._thread.connection
        return own

    def value(self, column: str | None) -> Any:
        """Return a value, from the column or from its blob."""
        return unpack(column, self._blob)

    def _blob(self, name: str) -> bytes:
        sql = """SELECT ?1 AS name, (SELECT body FROM blob WHERE sha256 = ?1) AS body
            UNION ALL SELECT part, body FROM blob_part LEFT JOIN blob ON sha256 = part
                WHERE blob_part.blob = ?1"""
        found = self.rows(sql, (name,))
        for row in found:
            if row["body"] is None:
                raise LedgerFailed(f"The ledger is damaged: its blob {row['name']} is missing.")
        parts = {row["name"]: bytes(row["body"]) for row in found[1:]}
        return joined(bytes(found[0]["body"]), parts)

    def run(self, id: str) -> RunRow | None:
        """One run."""
        found = self.rows(f"SELECT {_RUN} FROM run WHERE id = ?", (id,))
        return RunRow(**dict(found[0])) if found else None

    def runs(
        self,
        *,
        limit: int,
        before: str | None = None,
        **wanted: Unpack[RunFilter],
    ) -> list[RunRow]:
        """Newest first; `before` is the id that the last page ended with."""
        given = {"before": before, **wanted}
        compared = {_COMPARED[key]: given.get(key) for key in _COMPARED}
        values: list[Any] = [value for value in compared.values() if value is not None]
        where = [f"{key} ?" for key, value in compared.items() if value is not None]
        if wanted.get("status") in ("queued", "running", "waiting"):
            where.append("ended IS NULL")  # so that the index of unfinished runs is used
        if words := WORD.findall(wanted.get("text") or ""):
            where.append(_HAS_WORDS)
            values.append(" AND ".join(f'"{word}"*' for word in words))
        found = f"SELECT id FROM run WHERE {' AND '.join(where) or '1'} ORDER BY id DESC LIMIT ?"
        sql = f"SELECT {_RUN} FROM run WHERE id IN ({found}) ORDER BY id DESC"
        return [RunRow(**dict(row)) for row in self.rows(sql, [*values, limit])]

    def run_values(self, owner: str | None = None) -> RunValues:
        """The values that filters of runs can have; of one owner, or of all."""
        columns = ("workflow", "caller", "owner")
        found: dict[str, list[str]] = {}
        for column in columns:
            sql = f"""SELECT DISTINCT {column} AS value FROM run INDEXED BY run_filters
                WHERE ?1 IS NULL OR owner = ?1 ORDER BY value"""
            found[column] = [row["value"] for row in self.rows(sql, (owner,)) if row["value"]]
        return RunValues(found["workflow"], found["caller"], found["owner"])

    def unfinished(self) -> list[str]:
        """Return runs that have started and not ended, oldest first."""
        return [
            row["id"] for row in self.rows("SELECT id FROM run WHERE ended IS NULL ORDER BY id")
        ]

    def newest(self) -> str:
        """Return the last id that was given to a run or a note."""
        sql = "SELECT ifnull(max(id), '') AS id FROM (SELECT id FROM run UNION SELECT id FROM note)"
        return str(self.rows(sql)[0]["id"])

    def steps(self, run: str) -> list[StepRow]:
        """Its instances, in the order in which they began."""
        names = ", ".join(f"step.{name}" for name in _STEP)
        sql = f"""SELECT {names} FROM step LEFT JOIN
            (SELECT path, min(seq) AS seq FROM event WHERE run = ? GROUP BY path) AS begun
            ON begun.path = step.path WHERE step.run = ? ORDER BY begun.seq"""
        return [StepRow(*row) for row in self.rows(sql, (run, run))]

    def step(self, run: str, path: str) -> StepRow | None:
        """One instance."""
        sql = f"SELECT {', '.join(_STEP)} FROM step WHERE run = ? AND path = ?"
        found = self.rows(sql, (run, path))
        return StepRow(*found[0]) if found else None

    def open_steps(self, run: str) -> list[StepRow]:
        """Its instances that have not ended."""
        sql = f"SELECT {', '.join(_STEP)} FROM step WHERE run = ? AND ended IS NULL"
        return [StepRow(*row) for row in self.rows(sql, (run,))]

    def tool_times(self, run: str) -> list[ToolTime]:
        """Its calls of tools, without what went in and out."""
        sql = "SELECT tool, status, started, ended FROM step WHERE run = ? AND tool IS NOT NULL"
        return [
            ToolTime(tool, status, seconds_between(started, ended) if ended else 0.0)
            for tool, status, started, ended in self.rows(sql, (run,))
        ]

    def reasons(self, run: str) -> Mapping[str, str]:
        """Why instances ran although the run that this is a fork of had them, by path."""
        sql = """SELECT path, data ->> '$.why' AS why FROM event
            WHERE run = ? AND type = 'node.running' AND why IS NOT NULL ORDER BY seq"""
        return {row["path"]: row["why"] for row in self.rows(sql, (run,))}

    def events(self, run: str, *, after: int, limit: int = 500) -> list[Event]:
        """Return the next events of a run, after the number `after`."""
        sql = "SELECT * FROM event WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?"
        rows = self.rows(sql, (run, after, limit))
        return [Event(**{**dict(row), "data": read_json(row["data"])}) for row in rows]

    def all_events(self, run: str, *, after: int) -> Iterator[Event]:
        """All events of a run after one, read page by page."""
        while page := self.events(run, after=after):
            yield from page
            after = page[-1].seq

    def spent(self, run: str) -> Spent:
        """Sums over the run. A taken output counts as a node; its row has a tool and no attempt.

        Time between a crash and the resume is not counted, nor is time after a question in which
        nothing else happened.
        """
        sums = self.rows(
            """SELECT ifnull(sum(CASE WHEN status = 'done' AND tool IS NOT NULL
                    THEN max(attempt, 1) ELSE attempt END), 0) AS nodes,
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
