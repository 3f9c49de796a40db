"""Notes: short texts kept across conversations, found by their words."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipecatapp.workflow.ledger.clock import now
from pipecatapp.workflow.ledger.reading import Reader
from pipecatapp.workflow.ledger.values import Statement, clean

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


def saving(id: str, text: str, tags: Sequence[str]) -> tuple[Note, list[Statement]]:
    """A new note, and what writes it."""
    note = Note(id, now(), clean(text), tuple(clean(tag) for tag in tags))
    return note, [
        (
            "INSERT INTO note (id, at, text, tags) VALUES (?, ?, ?, ?)",
            (id, note.at, note.text, json.dumps(note.tags)),
        ),
        (
            "INSERT INTO doc_fts (kind, ref, body, tags) VALUES ('note', ?, ?, ?)",
            (id, note.text, " ".join(note.tags)),
        ),
    ]


def find(reader: Reader, query: str, limit: int) -> list[Note]:
    """Notes that hold a word of the query or begin one with it, best first; without words the
    newest.
    """
    words = _WORD.findall(clean(query))
    if words:
        asked = " OR ".join(f'"{word}"' + "*" * (len(word) >= PREFIX) for word in words)
        sql = """SELECT note.* FROM doc_fts JOIN note ON note.id = doc_fts.ref
            WHERE doc_fts MATCH ? AND kind = 'note' ORDER BY rank, note.id DESC LIMIT ?"""
        rows = reader.rows(sql, (asked, limit))
    else:
        rows = reader.rows("SELECT * FROM note ORDER BY id DESC LIMIT ?", (limit,))
    return [Note(row["id"], row["at"], row["text"], tuple(json.loads(row["tags"]))) for row in rows]
