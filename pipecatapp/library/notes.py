"""Notes: short texts kept across conversations, found by their words."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipecatapp.workflow import Ledger
from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.values import clean

PREFIX = 3
"""Letters from which on a word of a query also finds words that begin with it."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Note:
    """Something worth keeping."""

    id: str
    at: str
    text: str
    tags: tuple[str, ...]


async def save(ledger: Ledger, text: str, tags: Sequence[str] = ()) -> Note:
    """Keep a note; it is on the disk when this returns."""
    note = Note(ledger.names.new(), now(), clean(text), tuple(clean(tag) for tag in tags))
    row = (note.id, note.at, note.text, json.dumps(note.tags))
    found = (note.id, note.text, " ".join(note.tags))
    insert = "INSERT INTO doc_fts (kind, ref, body, tags) VALUES ('note', ?, ?, ?)"
    await ledger.submit(
        "", [("INSERT INTO note (id, at, text, tags) VALUES (?, ?, ?, ?)", row), (insert, found)]
    )
    return note


def find(ledger: Ledger, query: str, limit: int = 10) -> list[Note]:
    """Notes that hold a word of the query or begin one with it, best first; without words the
    newest.
    """
    words = _WORD.findall(clean(query))
    if words:
        asked = " OR ".join(f'"{word}"' + "*" * (len(word) >= PREFIX) for word in words)
        sql = """SELECT note.* FROM doc_fts JOIN note ON note.id = doc_fts.ref
            WHERE doc_fts MATCH ? AND kind = 'note' ORDER BY rank, note.id DESC LIMIT ?"""
        rows = ledger.read.rows(sql, (asked, limit))
    else:
        rows = ledger.read.rows("SELECT * FROM note ORDER BY id DESC LIMIT ?", (limit,))
    return [Note(row["id"], row["at"], row["text"], tuple(json.loads(row["tags"]))) for row in rows]
