"""Prune runs, export them as JSON lines, and import them."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipecatapp.workflow import Engine, NotImported, UnknownRun
from pipecatapp.workflow.storage import Reader, Statement, pack

RUNS, ROWS, PAGES, MERGED = 100, 500, 200, 500
"""Runs that are removed together, rows that one write deletes at most, pages of the file that one
write frees, and pages of the search index that one merges: each takes some hundredths of a second.
"""

FORMAT = 1
"""Of the JSON lines; a line of a newer one is refused."""


class RunUnfinished(RuntimeError):
    """The run has not ended, or an unfinished fork needs it; nothing was removed."""


_VALUES: Mapping[str, Sequence[str]] = {
    "run": ("request", "plan", "inputs", "outputs"),
    "step": ("input", "output", "prompt", "facts"),
    "event": (),
    "inbox": (),
}
"""Tables that belong to a run, with their columns that may refer to blobs."""
_LEFT_HERE = ("seq", "key")
"""Columns that mean something in one ledger only."""


async def prune(engine: Engine, *, before: str, keep: int, look: bool = False) -> list[str]:
    """Delete the runs that ended before a time (ISO 8601, UTC) and are not among the `keep` newest;
    returns their ids. With `look` they stay.
    """
    runs = await asyncio.to_thread(_doomed, engine.ledger.read, before=before, keep=keep)
    return runs if look else await remove(engine, runs)


async def delete(engine: Engine, runs: Sequence[str]) -> None:
    """Remove runs, all or none; raises `UnknownRun`, and `RunUnfinished` for one that is needed."""
    for run in runs:
        if engine.row(run).ended is None:
            raise RunUnfinished(f"The run {run} has not ended. Stop it first.")
    needed = await asyncio.to_thread(_needed, engine.ledger.read)
    for run in needed.intersection(runs):
        raise RunUnfinished(f"A fork of the run {run} has not ended. Stop the fork first.")
    await remove(engine, runs)


async def remove(engine: Engine, runs: Sequence[str]) -> list[str]:
    """Delete ended runs, with their workspaces, and free the disk space; returns the ids of the
    deleted runs, without those that an unfinished fork needs.

    Uses many short writes, so that writes of active runs are not delayed.
    """
    removed: list[str] = []
    for first in range(0, len(runs), RUNS):
        some, writes = await asyncio.to_thread(
            removing, engine.ledger.read, runs[first : first + RUNS]
        )
        for statements in writes:
            await engine.ledger.submit("", statements)
        removed += some
        if (workspaces := engine.workspaces) is not None:
            for run in some:
                await workspaces.prune(run)
    if removed:
        await engine.ledger.submit("", [(_BARE_CONVERSATIONS, ())])
        await _forget_words(engine)
        await _shrink(engine)
    return removed


async def timed(engine: Engine, run: str, stages: Mapping[str, float]) -> None:
    """Keep with a run how long each stage of its spoken turn took, in seconds."""
    told = {stage: round(seconds, 4) for stage, seconds in stages.items()}
    update = "UPDATE run SET spoken = ? WHERE id = ?"
    await engine.ledger.submit("", [(update, (json.dumps(told), run))])


def export(engine: Engine, run: str) -> Iterator[str]:
    """Export a run as JSON lines: the run, its steps, its events, and notes and answers to it.

    Raises `UnknownRun`.
    """
    if engine.ledger.read.run(run) is None:
        raise UnknownRun(f"There is no run {run!r}.")
    return _lines_of(engine.ledger.read, run)


async def import_runs(engine: Engine, lines: Iterable[str]) -> list[str]:
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


def removing(reader: Reader, runs: Sequence[str]) -> tuple[list[str], list[list[Statement]]]:
    """Return which of some runs can be deleted now, and the writes that delete them with all data
    that belongs only to them. Their own rows are last, so that an interrupted deletion is continued
    by the next one.
    """
    needed = _needed(reader)
    left = [run for run in runs if run not in needed]
    names = json.dumps(left)
    parts: list[tuple[int, Statement]] = [
        (min(ROWS, count - first), (_DELETE[table], (names, ROWS)))
        for table in _DELETE
        for count in (_count(reader, table, names),)
        for first in range(0, count, ROWS)
    ]
    parts.append((len(left), (f"DELETE FROM run WHERE id IN {_GIVEN}", (names,))))
    return left, _packed([*parts, *_unused_blobs(reader, names)])


def _needed(reader: Reader) -> set[str]:
    """The runs that unfinished forks take outputs over from."""
    sql = "SELECT forked FROM run WHERE ended IS NULL AND forked IS NOT NULL"
    return {row["forked"] for row in reader.rows(sql)}


def _count(reader: Reader, table: str, names: str) -> int:
    sql = f"SELECT count(*) AS number FROM {table} WHERE run IN {_GIVEN}"
    return int(reader.rows(sql, (names,))[0]["number"])


def _unused_blobs(reader: Reader, names: str) -> Iterator[tuple[int, Statement]]:
    """Removes the blobs of some runs that no other run has; their parts go with them."""
    used = " UNION ".join(
        f"SELECT substr({column}, 9) AS name FROM {table}"
        f" WHERE {'id' if table == 'run' else 'run'} IN {_GIVEN}"
        f" AND substr({column}, 1, 8) = '@sha256:'"
        for table, column in _BLOB_COLUMNS
    )
    sql = f"""SELECT sha256, size + (SELECT ifnull(sum(part.size), 0) FROM blob_part
            JOIN blob AS part ON part.sha256 = blob_part.part
            WHERE blob_part.blob = blob.sha256) AS size
        FROM blob WHERE sha256 IN ({used})"""
    for row in reader.rows(sql, (names,) * len(_BLOB_COLUMNS)):
        yield 1 + row["size"] // 4096, (_DELETE_BLOB, (row["sha256"],))


def _packed(parts: Iterable[tuple[int, Statement]]) -> list[list[Statement]]:
    """Statements as writes of at most so many rows together, in their order."""
    writes: list[list[Statement]] = []
    room = 0
    for rows, statement in parts:
        if rows > room:
            writes.append([])
            room = ROWS
        writes[-1].append(statement)
        room -= rows
    return writes


async def _forget_words(engine: Engine) -> None:
    """Remove the words of removed runs from the index of the search, which only marks them: what
    it has in several segments becomes one.
    """
    pages = int(engine.ledger.read.rows("SELECT count(*) FROM run_fts_data")[0][0])
    merge = "INSERT INTO run_fts (run_fts, rank) VALUES ('merge', ?)"
    for _ in range(pages // MERGED + 1):
        await engine.ledger.submit("", [(merge, (-MERGED,))])


async def _shrink(engine: Engine) -> None:
    """Free the unused pages of the file."""
    free = int(engine.ledger.read.rows("PRAGMA freelist_count")[0][0])
    for first in range(0, free, PAGES):
        # with Python's module, each statement frees one page, whatever number it names
        some = min(PAGES, free - first)
        await engine.ledger.submit("", [("PRAGMA incremental_vacuum(1)", ())] * some)


_GIVEN = "(SELECT value FROM json_each(?))"
_DELETE: Mapping[str, str] = {
    table: f"""DELETE FROM {table} WHERE ({key}) IN
        (SELECT {key} FROM {table} WHERE run IN {_GIVEN} LIMIT ?)"""
    for table, key in (("event", "seq"), ("step", "run, path"), ("inbox", "id"), ("cache", "key"))
}
_BLOB_COLUMNS = [(table, column) for table, columns in _VALUES.items() for column in columns]
_DELETE_BLOB = "DELETE FROM blob WHERE sha256 = ?1" + "".join(
    f""" AND NOT EXISTS (SELECT 1 FROM {table} WHERE {column} = '@sha256:' || ?1
        AND substr({column}, 1, 8) = '@sha256:')"""
    for table, column in _BLOB_COLUMNS
)
_BARE_CONVERSATIONS = """DELETE FROM conversation WHERE NOT EXISTS
    (SELECT 1 FROM run WHERE run.conversation = conversation.id OR run.id = conversation.origin)"""


_PLACE = """UPDATE run SET previous = coalesce(
        (SELECT id FROM run AS named WHERE named.id = run.previous AND named.id < run.id
            AND named.conversation IS NOT NULL AND named.owner = run.owner),
        (SELECT max(id) FROM run AS earlier
            WHERE earlier.conversation = run.conversation AND earlier.id < run.id))
    WHERE id = ?"""
"""Put an imported turn after the one it names, or after the latest one where that is not here."""


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
        if table == "run" and row.get("conversation") and row.get("previous", "") is not None:
            statements.append((_PLACE, (row["id"],)))
    return runs, statements


def _row(number: int, line: str) -> tuple[str, dict[str, Any]]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotImported(f"line {number} is not valid JSON: {error}") from error
    if not isinstance(row, dict) or row.get("table") not in _VALUES:
        raise NotImported(f"line {number} is not a part of a run")
    if row.pop("format", None) != FORMAT:
        raise NotImported(f"line {number} has another format than {FORMAT}")
    return str(row.pop("table")), row


def _check(reader: Reader, number: int, row: Mapping[str, Any]) -> None:
    if reader.rows("SELECT 1 FROM run WHERE id = ?", (str(row.get("id")),)):
        raise NotImported(f"line {number}: the run {row.get('id')} exists already")
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
        *("interactive", "forked", "family", "rerun", "spoken", "owner", "previous"),
    ),
    "step": (
        *("run", "path", "node", "tool", "version", "effect", "status", "attempt", "started"),
        *("ended", "prompt_tokens", "completion_tokens", "cost", "model", "error"),
        *("input", "output", "prompt", "facts"),
    ),
    "event": ("v", "run", "at", "type", "path", "node", "data"),
    "inbox": ("id", "run", "path", "at", "kind", "body", "taken"),
}
