"""The library of tasks: workflows with tags, in all their versions, found by their words.

They are in the ledger, so backups contain them; a task that extends another is a variant of it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipecatapp.workflow import Ledger, Workflow
from pipecatapp.workflow.storage import now

Statement = tuple[str, tuple[Any, ...]]

_WORD: Final = re.compile(r"\w+")
PREFIX: Final = 3
"""Minimum letters of a query's word that also matches longer words with this prefix."""
_LAST: Final = "version = (SELECT max(version) FROM task AS newer WHERE newer.id = task.id)"


class UnknownTask(LookupError):
    """The task, or this version of it, does not exist: see the list of tasks."""


@dataclass(frozen=True)
class StoredTask:
    """One version of a task."""

    id: str
    version: int
    at: str
    about: str
    tags: tuple[str, ...]
    document: str


class StoredTasks:
    """Reads them, and writes them through the ledger that this process holds."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def find(self, words: str = "", tags: Sequence[str] = (), limit: int = 50) -> list[StoredTask]:
        """The newest versions that have all of the tags and a word of the query, best first."""
        asked = query_of(words)
        if asked:
            sql = f"""SELECT task.* FROM doc_fts JOIN task ON task.id = doc_fts.ref
                WHERE doc_fts MATCH ? AND kind = 'task' AND {_LAST}
                ORDER BY bm25(doc_fts, 0, 0, 1, 4), task.id"""
            rows = self._ledger.read.rows(sql, (asked,))
        else:
            rows = self._ledger.read.rows(f"SELECT * FROM task WHERE {_LAST} ORDER BY id")
        found = [_task(row) for row in rows]
        return [task for task in found if {*tags} <= {*task.tags}][:limit]

    def versions(self, id: str) -> list[StoredTask]:
        """All versions, the newest first; raises `UnknownTask`."""
        sql = "SELECT * FROM task WHERE id = ? ORDER BY version DESC"
        found = [_task(row) for row in self._ledger.read.rows(sql, (id,))]
        if not found:
            raise UnknownTask(f"There is no task {id!r}.")
        return found

    def get(self, id: str, version: int | None = None) -> StoredTask:
        """One; the newest without a version. Raises `UnknownTask`."""
        found = self.versions(id)
        for task in found:
            if version in (None, task.version):
                return task
        last = found[0].version
        raise UnknownTask(f"The task {id!r} has no version {version}; the last is {last}.")

    async def keep(self, workflow: Workflow, document: str) -> StoredTask:
        """Store a new version; returns the last one if it is equal."""
        sql = f"SELECT * FROM task WHERE id = ? AND {_LAST}"
        rows = self._ledger.read.rows(sql, (workflow.id,))
        last = _task(rows[0]) if rows else None
        if last is not None and last.document == document:
            return last
        row = (now(), workflow.about, json.dumps(workflow.tags), document, workflow.id)
        # Numbered by the writer, so that two concurrent versions get different numbers.
        insert = """INSERT INTO task (id, version, at, about, tags, document)
            SELECT ?5, coalesce(max(version), 0) + 1, ?1, ?2, ?3, ?4 FROM task WHERE id = ?5"""
        await self._ledger.submit("", [(insert, row), *_indexed(workflow, document)])
        return next(one for one in self.versions(workflow.id) if one.document == document)

    async def remove(self, id: str) -> None:
        """Forget it with all its versions; raises `UnknownTask`."""
        self.versions(id)
        await self._ledger.submit("", [("DELETE FROM task WHERE id = ?", (id,)), _unindexed(id)])


def task_file(id: str) -> str:
    """Return the name that is shown instead of a file: a task has none."""
    return f"task {id}"


def query_of(words: str) -> str:
    """Return the FTS5 query for plain words: it matches any of them, as prefixes; `letters` also
    finds `letter`.
    """
    found = [word.rstrip("s") if len(word) > PREFIX + 1 else word for word in _WORD.findall(words)]
    return " OR ".join(f'"{word}"' + "*" * (len(word) >= PREFIX) for word in found)


def _indexed(task: Workflow, document: str) -> list[Statement]:
    body = f"{task.id.replace('-', ' ')} {task.about} {document}"
    insert = "INSERT INTO doc_fts (kind, ref, body, tags) VALUES ('task', ?, ?, ?)"
    return [_unindexed(task.id), (insert, (task.id, body, " ".join(task.tags)))]


def _unindexed(id: str) -> Statement:
    return "DELETE FROM doc_fts WHERE kind = 'task' AND ref = ?", (id,)


def _task(row: Any) -> StoredTask:
    return StoredTask(**{**dict(row), "tags": tuple(json.loads(row["tags"]))})
