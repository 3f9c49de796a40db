"""What is kept of runs, and for how long: pruning, and runs as JSON lines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipecatapp.workflow import Engine, NotImported, UnknownRun
from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.ledger.values import Statement, pack

FORMAT = 1
"""Of the JSON lines; a line of a newer one is refused."""

_VALUES: Mapping[str, Sequence[str]] = {
    "run": ("request", "plan", "inputs", "outputs"),
    "step": ("input", "output", "prompt", "facts"),
    "event": (),
    "inbox": (),
}
"""Tables that belong to a run, and their columns that may lie in blobs."""
_LEFT_HERE = ("seq", "key")
"""Columns that mean something in one ledger only."""


async def prune(engine: Engine, *, before: str, keep: int, look: bool = False) -> list[str]:
    """Remove the runs that ended before a moment (ISO 8601, UTC) and are not among the `keep`
    newest; gives their ids. With `look` they stay.
    """
    runs = _doomed(engine.ledger.read, before=before, keep=keep)
    if not look:
        await remove(engine, runs)
    return runs


async def remove(engine: Engine, runs: Sequence[str]) -> None:
    """Remove runs that have ended, with their workspaces."""
    if runs:
        await engine.ledger.submit("", _removing(runs))
    if (workspaces := engine.workspaces) is not None:
        for run in runs:
            await workspaces.prune(run)


async def timed(engine: Engine, run: str, stages: Mapping[str, float]) -> None:
    """Keep with a run how long each stage of its spoken turn took, in seconds."""
    told = {stage: round(seconds, 4) for stage, seconds in stages.items()}
    update = "UPDATE run SET spoken = ? WHERE id = ?"
    await engine.ledger.submit("", [(update, (json.dumps(told), run))])


def export(engine: Engine, run: str) -> Iterator[str]:
    """A run as JSON lines: itself, its steps, its events, what came to it; raises `UnknownRun`."""
    if engine.ledger.read.run(run) is None:
        raise UnknownRun(f"There is no run {run!r}.")
    return _lines_of(engine.ledger.read, run)


async def take_in(engine: Engine, lines: Iterable[str]) -> list[str]:
    """Import exported runs that have ended, all or none; raises `NotImported`."""
    runs, statements = _importing(engine.ledger.read, lines)
    await engine.ledger.submit("", statements)
    return runs


def _doomed(reader: Reader, *, before: str, keep: int) -> list[str]:
    """Runs that ended before a moment and are not among the newest, oldest first.

    The origin of an unfinished fork stays as long as the fork is unfinished.
    """
    sql = """SELECT id FROM run WHERE ended IS NOT NULL AND ended < ?
        AND id NOT IN (SELECT id FROM run ORDER BY id DESC LIMIT ?)
        AND id NOT IN (SELECT forked FROM run WHERE ended IS NULL AND forked IS NOT NULL)
        ORDER BY id"""
    return [row["id"] for row in reader.rows(sql, (before, keep))]


def _removing(runs: Sequence[str]) -> list[Statement]:
    """Removes runs with everything that belongs only to them."""
    statements: list[Statement] = []
    for run in runs:
        statements += [
            (f"DELETE FROM {table} WHERE run = ?", (run,))
            for table in ("event", "step", "inbox", "cache")
        ]
        statements.append(("DELETE FROM run WHERE id = ?", (run,)))
    used = " UNION ALL ".join(
        f"SELECT substr({column}, 9) FROM {table} WHERE {column} LIKE '@sha256:%'"
        for table, columns in _VALUES.items()
        for column in columns
    )
    statements.append((f"DELETE FROM blob WHERE sha256 NOT IN ({used})", ()))
    bare = "SELECT conversation FROM run WHERE conversation IS NOT NULL"
    statements.append((f"DELETE FROM conversation WHERE id NOT IN ({bare})", ()))
    return statements


def _lines_of(reader: Reader, run: str) -> Iterator[str]:
    for table, packed in _VALUES.items():
        name = "id" if table == "run" else "run"
        order = "seq" if table == "event" else "1, 2"
        rows = reader.rows(f"SELECT * FROM {table} WHERE {name} = ? ORDER BY {order}", (run,))
        for row in rows:
            told = {key: row[key] for key in row.keys() if key not in _LEFT_HERE}  # noqa: SIM118
            told |= {key: reader.value(row[key]) for key in packed}
            yield json.dumps({"format": FORMAT, "table": table, **told}, ensure_ascii=False)


def _importing(reader: Reader, lines: Iterable[str]) -> tuple[list[str], list[Statement]]:
    """The ids of the runs in these lines, and what writes them; raises `NotImported`."""
    runs: list[str] = []
    statements: list[Statement] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        table, row = _row(number, line)
        if table == "run":
            _check(reader, number, row)
            runs.append(row["id"])
        elif row.get("run") not in runs:
            raise NotImported(f"line {number}: its run comes before it in an export")
        statements += _inserting(number, table, row)
    return runs, statements


def _row(number: int, line: str) -> tuple[str, dict[str, Any]]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotImported(f"line {number} is no JSON: {error}") from error
    if not isinstance(row, dict) or row.get("table") not in _VALUES:
        raise NotImported(f"line {number} is no part of a run")
    if row.pop("format", None) != FORMAT:
        raise NotImported(f"line {number} has another format than {FORMAT}")
    return str(row.pop("table")), row


def _check(reader: Reader, number: int, row: Mapping[str, Any]) -> None:
    if reader.rows("SELECT 1 FROM run WHERE id = ?", (str(row.get("id")),)):
        raise NotImported(f"line {number}: the run {row.get('id')} is here already")
    if row.get("ended") is None:
        raise NotImported(f"line {number}: the run {row.get('id')} has not ended")


def _inserting(number: int, table: str, row: dict[str, Any]) -> list[Statement]:
    """The statements for one line; only columns that the table has are named."""
    known = _COLUMNS[table]
    if unknown := row.keys() - set(known):
        raise NotImported(f"line {number}: {table} has no {sorted(unknown)[0]!r}")
    statements: list[Statement] = []
    for column in _VALUES[table]:
        if row.get(column) is not None or column in ("request", "plan", "inputs"):
            row[column], more = pack(row.get(column), inline=0 if column == "plan" else 8192)
            statements += more
    values = tuple(row.values())
    if not all(value is None or isinstance(value, str | int | float) for value in values):
        raise NotImported(f"line {number}: a value is of a wrong kind")
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    return [*statements, (f"INSERT INTO {table} ({names}) VALUES ({marks})", values)]


_COLUMNS: Mapping[str, Sequence[str]] = {
    "run": (
        *("id", "workflow", "status", "conversation", "caller", "started", "ended", "title"),
        *("error", "request", "plan", "inputs", "outputs"),
        *("interactive", "forked", "family", "rerun", "spoken"),
    ),
    "step": (
        *("run", "path", "node", "tool", "version", "effect", "status", "attempt", "started"),
        *("ended", "prompt_tokens", "completion_tokens", "cost", "model", "error"),
        *("input", "output", "prompt", "facts"),
    ),
    "event": ("v", "run", "at", "type", "path", "node", "data"),
    "inbox": ("id", "run", "path", "at", "kind", "body", "taken"),
}
