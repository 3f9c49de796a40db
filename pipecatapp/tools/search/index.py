"""A full-text index of the files of a folder, in SQLite's FTS5."""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipecatapp.sandbox.tree import NotPlain, open_plain
from pipecatapp.tools.search.query import expression, is_unspaced, phrases

LINES: Final = 30
"""Lines of a passage, the unit that is found and ranked."""
LARGEST: Final = 1024 * 1024
"""Bytes of a file; larger ones are seldom written by people."""
SAMPLE: Final = 8000
SECONDS: Final = 30.0
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (folder TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, state TEXT NOT NULL, sha256 TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, line INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS passages_of_file ON passages (file);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (
    text, path, tokenize='unicode61 remove_diacritics 2');
"""


@dataclass(frozen=True)
class Known:
    """A file as a listing shows it; `state` changes whenever its content may have."""

    path: str
    state: str


@dataclass(frozen=True)
class Passage:
    """A passage that was found; `line` is the number of its first line, from 1."""

    path: str
    line: int
    text: str
    score: float
    """BM25: larger is better."""


class Index:
    """The index of one folder. `file` is its database; `:memory:` keeps it for this call only."""

    def __init__(self, folder: Path, file: str) -> None:
        self._folder, self._file = folder, file

    @contextmanager
    def opened(self) -> Iterator["OpenIndex"]:
        """Open the index in one transaction, which ends with the block."""
        with closing(sqlite3.connect(self._file, timeout=SECONDS, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute("DELETE FROM meta")
            db.execute("INSERT INTO meta VALUES (?)", (str(self._folder),))
            yield OpenIndex(self._folder, db)
            db.execute("COMMIT")


class OpenIndex:
    """An open index."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self._folder, self._db = folder, db

    def update(self, found: Iterable[Known]) -> int:
        """Read the files that are new or changed, and forget those that are gone.

        Returns the number of files that were read. A file whose size and time are the same is not
        read; one whose content is the same is not indexed again.
        """
        rows = self._db.execute("SELECT path, id, state, sha256 FROM files")
        before = {path: rest for path, *rest in rows}
        read = 0
        for one in found:
            known = before.pop(one.path, None)
            if known is not None and known[1] == one.state:
                continue
            read += 1
            self._read(one, known)
        for id, *_ in before.values():
            self._forget(id)
        return read

    def _read(self, one: Known, known: list[object] | None) -> None:
        data = _content(self._folder, one.path)
        text = None if data is None or b"\0" in data[:SAMPLE] else data.decode("utf-8", "replace")
        digest = hashlib.sha256(data or b"").hexdigest()
        if known is not None and known[2] == digest:
            self._db.execute("UPDATE files SET state = ? WHERE id = ?", (one.state, known[0]))
            return
        if known is not None:
            self._forget(known[0])
        insert = "INSERT INTO files (path, state, sha256) VALUES (?, ?, ?)"
        id = self._db.execute(insert, (one.path, one.state, digest)).lastrowid
        lines = (text or "").splitlines()
        for start in range(0, len(lines), LINES):
            passage = "\n".join(lines[start : start + LINES])
            row = self._db.execute(
                "INSERT INTO passages (file, line) VALUES (?, ?)", (id, start + 1)
            ).lastrowid
            add = "INSERT INTO words (rowid, text, path) VALUES (?, ?, ?)"
            self._db.execute(add, (row, passage, one.path))

    def _forget(self, id: object) -> None:
        self._db.execute(
            "DELETE FROM words WHERE rowid IN (SELECT id FROM passages WHERE file = ?)", (id,)
        )
        self._db.execute("DELETE FROM passages WHERE file = ?", (id,))
        self._db.execute("DELETE FROM files WHERE id = ?", (id,))

    @property
    def size(self) -> int:
        """The number of files that have text."""
        row = self._db.execute("SELECT count(DISTINCT file) FROM passages").fetchone()
        return int(row[0])

    def find(self, query: str) -> Iterator[Passage]:
        """Yield passages with every word of the query, the best first, then those with any."""
        parts = phrases(query)
        seen: set[int] = set()
        for every in (True, False) if len(parts) > 1 else (True,):
            for id, path, line, text, score in self._matches(parts, every=every) if parts else ():
                if id not in seen:
                    seen.add(id)
                    yield Passage(path, line, text, score)
        if not seen and parts and is_unspaced(query):
            yield from self._containing(parts)

    def _matches(
        self, parts: list[str], *, every: bool
    ) -> Iterator[tuple[int, str, int, str, float]]:
        # A name in the path counts half as much as a word in the text.
        yield from self._db.execute(
            """SELECT passages.id, files.path, passages.line, words.text,
                      -bm25(words, 1.0, 0.5) AS score
               FROM words JOIN passages ON passages.id = words.rowid
               JOIN files ON files.id = passages.file
               WHERE words MATCH ? ORDER BY score DESC, files.path, passages.line""",
            (expression(parts, every=every),),
        )

    def _containing(self, parts: list[str]) -> Iterator[Passage]:
        """Yield passages that contain the parts, for scripts whose words the index cannot split."""
        condition = " AND ".join("instr(words.text, ?) > 0" for _ in parts)
        rows = self._db.execute(
            f"""SELECT files.path, passages.line, words.text, 0.0 FROM words
                JOIN passages ON passages.id = words.rowid
                JOIN files ON files.id = passages.file WHERE {condition}
                ORDER BY files.path, passages.line""",
            parts,
        )
        yield from (Passage(*row) for row in rows)


def _content(folder: Path, path: str) -> bytes | None:
    """Return a file; None for one that is too large, or gone, or no regular file any more."""
    try:
        with os.fdopen(open_plain(folder, path), "rb") as stream:
            data = stream.read(LARGEST + 1)
    except (OSError, NotPlain):
        return None
    return data if len(data) <= LARGEST else None
