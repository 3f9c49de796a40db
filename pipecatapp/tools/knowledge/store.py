"""The index of knowledge: one SQLite file with sources, files, passages, words and vectors.

Each source has a separate full-text table: the weight of a word then depends only on sources
that the caller may read, and the words of a removed source are gone with its table.
"""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from pipecatapp.tools.knowledge.passages import Passage

EVERYONE: Final = "*"
"""As a reader: every key."""
SECONDS: Final = 30.0
VERSION: Final = 1
SCHEMA: Final = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value NOT NULL);
CREATE TABLE source (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, paths TEXT NOT NULL,
    readers TEXT NOT NULL, created TEXT NOT NULL, checked TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT '', stamp INTEGER NOT NULL DEFAULT 0);
CREATE TABLE file (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL REFERENCES source (id), path TEXT NOT NULL,
    state TEXT NOT NULL, sha256 BLOB NOT NULL, error TEXT NOT NULL, UNIQUE (source, path));
CREATE TABLE passage (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL,
    file INTEGER NOT NULL REFERENCES file (id), number INTEGER NOT NULL, heading TEXT NOT NULL,
    page INTEGER NOT NULL, line INTEGER NOT NULL, last INTEGER NOT NULL, text TEXT NOT NULL,
    sha256 BLOB NOT NULL);
CREATE INDEX passage_of_file ON passage (file, number);
CREATE INDEX passage_of_source ON passage (source, sha256);
CREATE INDEX passage_by_content ON passage (sha256);
CREATE TABLE vector (sha256 BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID;
"""


class IndexDamaged(Exception):
    """The index cannot be used. It has no data that cannot be made again from the documents."""


class SourceRow(BaseModel):
    """A source as it is stored."""

    id: int
    name: str
    paths: list[str] = Field(description="Folders and files on the machine of the agent.")
    readers: list[str] = Field(
        description="Names of keys that may read it; `*` is every key. The built-in key may always."
    )
    created: str = Field(description="ISO 8601, UTC.")
    checked: str = Field(description="When changes were last indexed; empty before.")
    error: str = Field(description="Why they could not be compared; empty if they could.")
    stamp: int = Field(exclude=True)

    def is_readable(self, reader: str) -> bool:
        """Return whether the key with this name may read it; empty for the built-in key."""
        return not reader or EVERYONE in self.readers or reader in self.readers


class Counts(BaseModel):
    """Numbers of a source."""

    files: int = Field(description="Indexed files.")
    failed: int = Field(description="Files that cannot be indexed.")
    passages: int
    embedded: int = Field(description="Passages that are found by their meaning, too.")


class FileFailure(BaseModel):
    """A file that cannot be indexed, and why."""

    path: str
    error: str


@dataclass(frozen=True)
class KnownFile:
    """A file as the index has it."""

    id: int
    state: str
    sha256: bytes


@dataclass(frozen=True)
class StoredPassage:
    """A passage with its position."""

    id: int
    source: str
    path: str
    heading: str
    page: int
    line: int
    last: int
    text: str


class KnowledgeStore:
    """The index in one file. Each method opens it, and changes it in one transaction.

    Methods block: call them in a thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._idle: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._idle is not None:
                self._idle.close()
                self._idle = None

    def _stay_open(self) -> None:
        """Keep one connection: SQLite writes its log back and syncs when the last one is closed,
        which would take longer than a change.
        """
        with self._lock:
            if self._idle is None:
                self._idle = sqlite3.connect(self.path, check_same_thread=False)
                self._idle.execute("PRAGMA user_version").fetchone()

    @contextmanager
    def _opened(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=SECONDS, isolation_level=None)) as db:
                self._prepare(db)
                self._stay_open()
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield db
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
                raise IndexDamaged(
                    f"{self.path} is damaged. Stop Hearth, remove the file, and add the sources"
                    " again."
                ) from error
            raise

    def _prepare(self, db: sqlite3.Connection) -> None:
        # Removed texts are overwritten in the file.
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA synchronous = NORMAL")
        [version] = db.execute("PRAGMA user_version").fetchone()
        if version == VERSION:
            return
        if version > VERSION:
            raise IndexDamaged(f"{self.path} was written by a newer Hearth. Update Hearth.")
        self.path.chmod(0o600)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        [version] = db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in SCHEMA.split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")

    # Sources.

    def sources(self) -> list[SourceRow]:
        """Return all sources by name."""
        if not self.path.exists():
            return []
        with self._opened() as db:
            rows = db.execute(
                "SELECT id, name, paths, readers, created, checked, error, stamp FROM source"
                " ORDER BY name"
            ).fetchall()
        return [
            SourceRow(
                id=row[0], name=row[1], paths=json.loads(row[2]), readers=json.loads(row[3]),
                created=row[4], checked=row[5], error=row[6], stamp=row[7],
            )
            for row in rows
        ]  # fmt: skip

    def add(self, name: str, paths: Sequence[str], readers: Sequence[str]) -> bool:
        """Add a source; False if there is one of this name."""
        with self._opened(write=True) as db:
            done = db.execute(
                "INSERT OR IGNORE INTO source (name, paths, readers, created) VALUES (?, ?, ?, ?)",
                (name, json.dumps(list(paths)), json.dumps(list(readers)), _now()),
            )
            if not done.rowcount:
                return False
            db.execute(
                f"CREATE VIRTUAL TABLE words_{done.lastrowid} USING fts5 (text, heading,"
                " content='passage', content_rowid='id',"
                " tokenize='unicode61 remove_diacritics 2')"
            )
        return True

    def change_readers(self, source: int, readers: Sequence[str]) -> None:
        """Replace the readers of a source."""
        with self._opened(write=True) as db:
            change = "UPDATE source SET readers = ? WHERE id = ?"
            db.execute(change, (json.dumps(list(readers)), source))

    def remove(self, source: int) -> None:
        """Remove a source with its files, passages, words and vectors, also from the disk."""
        with self._opened(write=True) as db:
            db.execute(f"DROP TABLE IF EXISTS words_{source}")
            digests = _digests(db, "source", source)
            db.execute("DELETE FROM passage WHERE source = ?", (source,))
            db.execute("DELETE FROM file WHERE source = ?", (source,))
            db.execute("DELETE FROM source WHERE id = ?", (source,))
            _forget_vectors(db, digests)
        with closing(sqlite3.connect(self.path, timeout=SECONDS, isolation_level=None)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def checked(self, source: int, error: str = "") -> None:
        """Record that changes of a source were indexed, or why not."""
        with self._opened(write=True) as db:
            change = "UPDATE source SET checked = ?, error = ? WHERE id = ?"
            db.execute(change, (_now(), error, source))

    def counts(self, source: int) -> Counts:
        """Return the numbers of a source."""
        with self._opened() as db:
            files, failed = db.execute(
                "SELECT count(*) FILTER (WHERE error = ''), count(*) FILTER (WHERE error != '')"
                " FROM file WHERE source = ?",
                (source,),
            ).fetchone()
            passages, embedded = db.execute(
                "SELECT count(*), count(vector.sha256) FROM passage"
                " LEFT JOIN vector ON vector.sha256 = passage.sha256 WHERE source = ?",
                (source,),
            ).fetchone()
        return Counts(files=files, failed=failed, passages=passages, embedded=embedded)

    def failures(self, source: int, limit: int) -> list[FileFailure]:
        """Return files that cannot be indexed."""
        with self._opened() as db:
            rows = db.execute(
                "SELECT path, error FROM file WHERE source = ? AND error != '' ORDER BY path"
                " LIMIT ?",
                (source, limit),
            ).fetchall()
        return [FileFailure(path=path, error=error) for path, error in rows]

    # Files.

    def files(self, source: int) -> dict[str, KnownFile]:
        """Return the files of a source by path."""
        with self._opened() as db:
            rows = db.execute(
                "SELECT path, id, state, sha256 FROM file WHERE source = ?", (source,)
            ).fetchall()
        return {path: KnownFile(*rest) for path, *rest in rows}

    def touch(self, file: int, state: str) -> None:
        """Record that a file has another time and the same content."""
        with self._opened(write=True) as db:
            db.execute("UPDATE file SET state = ? WHERE id = ?", (state, file))

    def replace(
        self,
        source: int,
        path: str,
        state: str,
        sha256: bytes,
        found: Sequence[Passage],
        error: str = "",
    ) -> None:
        """Replace a file with its passages; nothing if the source was removed meanwhile."""
        with self._opened(write=True) as db:
            if not db.execute("SELECT 1 FROM source WHERE id = ?", (source,)).fetchone():
                return
            digests = _forget_files(db, source, [path])
            file = db.execute(
                "INSERT INTO file (source, path, state, sha256, error) VALUES (?, ?, ?, ?, ?)",
                (source, path, state, sha256, error),
            ).lastrowid
            for number, one in enumerate(found):
                id = db.execute(
                    "INSERT INTO passage (source, file, number, heading, page, line, last, text,"
                    " sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (source, file, number, one.heading, one.page, one.line, one.last, one.text,
                     one.digest),
                ).lastrowid  # fmt: skip
                db.execute(
                    f"INSERT INTO words_{source} (rowid, text, heading) VALUES (?, ?, ?)",
                    (id, one.text, one.heading),
                )
            _forget_vectors(db, digests)
            _stamp(db, source)

    def forget(self, source: int, paths: Iterable[str]) -> None:
        """Remove files that are gone."""
        with self._opened(write=True) as db:
            _forget_vectors(db, _forget_files(db, source, paths))
            _stamp(db, source)

    # Vectors.

    def model(self) -> str:
        """Return the expert whose vectors the index has; empty before the first vector."""
        if not self.path.exists():
            return ""
        with self._opened() as db:
            row = db.execute("SELECT value FROM setting WHERE name = 'model'").fetchone()
        return str(row[0]) if row else ""

    def use_model(self, model: str, background: bytes) -> None:
        """Record the model. Vectors of another one are removed, and made again little by little.

        `background`: the vector of texts about anything, with which a similarity is compared.
        """
        with self._opened(write=True) as db:
            row = db.execute("SELECT value FROM setting WHERE name = 'model'").fetchone()
            if row and row[0] == model:
                return
            db.execute("DELETE FROM vector")
            values = [("model", model), ("background", background)]
            db.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", values)
            db.execute("UPDATE source SET stamp = stamp + 1")

    def without_vector(self, source: int, limit: int) -> list[tuple[bytes, str, str]]:
        """Return digest, headings and text of passages of a source that have no vector."""
        with self._opened() as db:
            return db.execute(
                "SELECT sha256, min(heading), min(text) FROM passage WHERE source = ? AND NOT"
                " EXISTS (SELECT 1 FROM vector WHERE vector.sha256 = passage.sha256)"
                " GROUP BY sha256 ORDER BY min(id) LIMIT ?",
                (source, limit),
            ).fetchall()

    def add_vectors(self, source: int, model: str, vectors: Sequence[tuple[bytes, bytes]]) -> None:
        """Store vectors by the digests of their passages; none if the model was replaced."""
        with self._opened(write=True) as db:
            row = db.execute("SELECT value FROM setting WHERE name = 'model'").fetchone()
            if row is None or row[0] != model:
                return
            # A passage may have been removed while it was embedded.
            db.executemany(
                "INSERT OR REPLACE INTO vector SELECT ?1, ?2"
                " WHERE EXISTS (SELECT 1 FROM passage WHERE sha256 = ?1)",
                vectors,
            )
            _stamp(db, source)

    def vectors(self, source: int) -> list[tuple[int, bytes]]:
        """Return passage and vector of all embedded passages of a source."""
        with self._opened() as db:
            return db.execute(
                "SELECT passage.id, vector.vector FROM passage JOIN vector USING (sha256)"
                " WHERE source = ? ORDER BY passage.id",
                (source,),
            ).fetchall()

    def background(self) -> bytes:
        """Return the packed vector of the background; empty before the first vector."""
        with self._opened() as db:
            row = db.execute("SELECT value FROM setting WHERE name = 'background'").fetchone()
        return bytes(row[0]) if row else b""

    # Passages.

    def frequency(self, source: int, word: str) -> int:
        """Return in how many passages of a source a word is; of all passages for an empty one."""
        with self._opened() as db:
            if not word:
                sql, value = "SELECT count(*) FROM passage WHERE source = ?", str(source)
            else:
                sql = f"SELECT count(*) FROM words_{source} WHERE words_{source} MATCH ?"
                value = word
            return int(db.execute(sql, (value,)).fetchone()[0])

    def containing(self, source: int, word: str, ids: Sequence[int]) -> set[int]:
        """Return those of these passages that match a word."""
        with self._opened() as db:
            rows = db.execute(
                f"SELECT rowid FROM words_{source} WHERE words_{source} MATCH ?"
                " AND rowid IN (SELECT value FROM json_each(?))",
                (word, json.dumps(list(ids))),
            ).fetchall()
        return {row[0] for row in rows}

    def matching(self, source: int, words: str, limit: int) -> list[tuple[int, float]]:
        """Return passages that match an expression of FTS5, with BM25, the best first."""
        with self._opened() as db:
            return db.execute(
                f"SELECT rowid, -bm25(words_{source}, 1.0, 2.0) AS score FROM words_{source}"
                f" WHERE words_{source} MATCH ? ORDER BY score DESC, rowid LIMIT ?",
                (words, limit),
            ).fetchall()

    def passages(self, ids: Sequence[int], sources: Sequence[int]) -> dict[int, StoredPassage]:
        """Return passages of these sources by their ids; unknown ids are left out."""
        with self._opened() as db:
            rows = db.execute(
                "SELECT passage.id, source.name, file.path, heading, page, line, last, text"
                " FROM passage JOIN source ON source.id = passage.source"
                " JOIN file ON file.id = passage.file"
                " WHERE passage.id IN (SELECT value FROM json_each(?))"
                " AND passage.source IN (SELECT value FROM json_each(?))",
                (json.dumps(list(ids)), json.dumps(list(sources))),
            ).fetchall()
        return {row[0]: StoredPassage(*row) for row in rows}

    def around(self, id: int, sources: Sequence[int], reach: int) -> list[StoredPassage]:
        """Return a passage with `reach` passages before and behind it in its file."""
        with self._opened() as db:
            rows = db.execute(
                "SELECT near.id FROM passage JOIN passage AS near ON near.file = passage.file"
                " AND abs(near.number - passage.number) <= ? WHERE passage.id = ?"
                " ORDER BY near.number",
                (reach, id),
            ).fetchall()
        ids = [row[0] for row in rows]
        found = self.passages(ids, sources)
        return [found[one] for one in ids if one in found]


def _forget_files(db: sqlite3.Connection, source: int, paths: Iterable[str]) -> list[bytes]:
    """Remove files with their passages; returns the digests of these."""
    digests: list[bytes] = []
    for path in paths:
        row = db.execute(
            "SELECT id FROM file WHERE source = ? AND path = ?", (source, path)
        ).fetchone()
        if row is None:
            continue
        db.execute(
            f"INSERT INTO words_{source} (words_{source}, rowid, text, heading)"
            " SELECT 'delete', id, text, heading FROM passage WHERE file = ?",
            row,
        )
        digests += _digests(db, "file", row[0])
        db.execute("DELETE FROM passage WHERE file = ?", row)
        db.execute("DELETE FROM file WHERE id = ?", row)
    return digests


def _digests(db: sqlite3.Connection, column: str, id: int) -> list[bytes]:
    return [row[0] for row in db.execute(f"SELECT sha256 FROM passage WHERE {column} = ?", (id,))]


def _forget_vectors(db: sqlite3.Connection, digests: Iterable[bytes]) -> None:
    """Remove those of these vectors of which no passage is left."""
    db.executemany(
        "DELETE FROM vector WHERE sha256 = ?1 AND NOT EXISTS"
        " (SELECT 1 FROM passage WHERE passage.sha256 = ?1)",
        ((digest,) for digest in digests),
    )


def _stamp(db: sqlite3.Connection, source: int) -> None:
    db.execute("UPDATE source SET stamp = stamp + 1 WHERE id = ?", (source,))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
