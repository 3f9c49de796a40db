"""Notes: short texts stored across conversations, found by their words."""

import json
import re
from collections.abc import Sequence
from sqlite3 import Row
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipecatapp.workflow import Ledger
from pipecatapp.workflow.storage import clean, now

PREFIX = 3
"""Minimum letters of a query's word that also matches longer words with this prefix."""

_WORD = re.compile(r"\w+")
_COLUMNS = """note.*, IFNULL(note.source ->> '$.run', '') = ''
    OR EXISTS (SELECT 1 FROM run WHERE run.id = note.source ->> '$.run') AS source_exists"""
_TURN = "/turn["
"""A part of the paths of calls that a model of an agent wanted."""


class Source(BaseModel):
    """The source of a note: a model that has read a page may have copied text of the page."""

    model_config = ConfigDict(frozen=True)

    by: Literal["", "model", "workflow"] = ""
    """A model of an agent, or a step of a workflow; empty for older notes."""
    run: str = ""
    conversation: str | None = None
    read: tuple[str, ...] = ()
    """Tools whose results the run had read before."""

    def __str__(self) -> str:
        if not self.by:
            return ""
        told = f"saved by a {self.by} in run {self.run}"
        return f"{told} after reading {', '.join(self.read)}" if self.read else told


class Note(BaseModel):
    """Something worth keeping. `owner` is the name of a key, empty for the built-in one."""

    model_config = ConfigDict(frozen=True)

    id: str
    at: str
    text: str
    tags: tuple[str, ...]
    owner: str = ""
    source: Source = Source()
    source_exists: bool = True
    """False if the run that saved the note was deleted."""


def source_of(ledger: Ledger, run: str, path: str) -> Source:
    """The source of a note that the call at `path` of a run saves."""
    sql = """SELECT DISTINCT tool FROM step WHERE run = ? AND status = 'done'
        AND effect IN ('read', 'net', 'workspace', 'exec', 'external') AND tool != 'note.save'
        ORDER BY tool"""
    row = ledger.read.run(run)
    if row is None:
        return Source()
    read = tuple(str(found["tool"]) for found in ledger.read.rows(sql, (run,)))
    by: Literal["model", "workflow"] = "model" if _TURN in path else "workflow"
    return Source(by=by, run=run, conversation=row.conversation, read=read)


async def save(
    ledger: Ledger,
    text: str,
    tags: Sequence[str] = (),
    *,
    owner: str = "",
    source: Source | None = None,
) -> Note:
    """Save a note of `owner` (the name of a key, empty for the built-in one) durably."""
    cleaned = tuple(clean(tag) for tag in tags)
    note = Note(
        id=ledger.names.new(),
        at=now(),
        text=clean(text),
        tags=cleaned,
        owner=owner,
        source=source or Source(),
    )
    marked = note.source.model_dump_json()
    row = (note.id, note.at, note.text, json.dumps(note.tags), owner, marked)
    keep = "INSERT INTO note (id, at, text, tags, owner, source) VALUES (?, ?, ?, ?, ?, ?)"
    found = (note.id, note.text, " ".join(note.tags))
    insert = "INSERT INTO doc_fts (kind, ref, body, tags) VALUES ('note', ?, ?, ?)"
    await ledger.submit("", [(keep, row), (insert, found)])
    return note


async def delete(ledger: Ledger, id: str, *, owner: str = "") -> bool:
    """Delete a note; False where there is none, or where it belongs to another owner."""
    sql = "SELECT 1 FROM note WHERE id = ? AND ? IN ('', owner)"
    if not ledger.read.rows(sql, (id, owner)):
        return False
    gone = "DELETE FROM doc_fts WHERE kind = 'note' AND ref = ?"
    await ledger.submit("", [("DELETE FROM note WHERE id = ?", (id,)), (gone, (id,))])
    return True


def get(ledger: Ledger, id: str, *, owner: str = "") -> Note | None:
    """Return a note; None where there is none, or where it belongs to another owner."""
    sql = f"SELECT {_COLUMNS} FROM note WHERE id = ? AND ? IN ('', owner)"
    rows = ledger.read.rows(sql, (id, owner))
    return _note(rows[0]) if rows else None


def find(ledger: Ledger, query: str, limit: int = 10, *, owner: str = "") -> list[Note]:
    """Return notes that contain a word of the query, or a word with this prefix, best first;
    without words the newest. Only those of `owner`; all of them for the built-in key.
    """
    asked = _asked(query)
    if asked:
        sql = f"""SELECT {_COLUMNS} FROM doc_fts JOIN note ON note.id = doc_fts.ref
            WHERE doc_fts MATCH ? AND kind = 'note' AND ? IN ('', owner)
            ORDER BY rank, note.id DESC LIMIT ?"""
        rows = ledger.read.rows(sql, (asked, owner, limit))
    else:
        sql = f"SELECT {_COLUMNS} FROM note WHERE ? IN ('', owner) ORDER BY id DESC LIMIT ?"
        rows = ledger.read.rows(sql, (owner, limit))
    return [_note(row) for row in rows]


def number(ledger: Ledger, query: str, *, owner: str = "") -> int:
    """How many notes `find` has without a limit."""
    asked = _asked(query)
    if asked:
        sql = """SELECT count(*) FROM doc_fts JOIN note ON note.id = doc_fts.ref
            WHERE doc_fts MATCH ? AND kind = 'note' AND ? IN ('', owner)"""
        return int(ledger.read.rows(sql, (asked, owner))[0][0])
    sql = "SELECT count(*) FROM note WHERE ? IN ('', owner)"
    return int(ledger.read.rows(sql, (owner,))[0][0])


def _asked(query: str) -> str:
    """The words of a query as the index of the search takes them; empty without words."""
    words = _WORD.findall(clean(query))
    return " OR ".join(f'"{word}"' + "*" * (len(word) >= PREFIX) for word in words)


def _note(row: Row) -> Note:
    return Note(
        id=row["id"],
        at=row["at"],
        text=row["text"],
        tags=tuple(json.loads(row["tags"])),
        owner=row["owner"],
        source=Source.model_validate_json(row["source"]),
        source_exists=row["source_exists"],
    )
