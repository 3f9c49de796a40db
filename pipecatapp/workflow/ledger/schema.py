"""The tables, and how an older file becomes a current one."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pipecatapp.workflow.ledger.errors import LedgerDamaged, LedgerFailed, LedgerTooNew
from pipecatapp.workflow.ledger.lease import refuse_if_held

APPLICATION_ID = 0x48525448
"""`HRTH`: so that `file` and we know the file for what it is."""

Migration = Sequence[str]

_INCREMENTAL = 2
"""Mode of `PRAGMA auto_vacuum`: unused pages are freed on request."""

SEARCHED = 1_000_000
"""Bytes of a value up to which its words are searched; a larger one would hold up the writer."""

_FIRST: Migration = (
    """CREATE TABLE run (
        id TEXT PRIMARY KEY, workflow TEXT NOT NULL, status TEXT NOT NULL,
        conversation TEXT, caller TEXT NOT NULL, started TEXT NOT NULL, ended TEXT,
        title TEXT NOT NULL, error TEXT, request TEXT NOT NULL,
        plan TEXT NOT NULL, inputs TEXT NOT NULL, outputs TEXT) WITHOUT ROWID""",
    "CREATE INDEX run_conversation ON run (conversation, id) WHERE conversation IS NOT NULL",
    "CREATE INDEX run_workflow ON run (workflow, id)",
    "CREATE INDEX run_unfinished ON run (id) WHERE ended IS NULL",
    """CREATE TABLE step (
        run TEXT NOT NULL, path TEXT NOT NULL, node TEXT NOT NULL, tool TEXT,
        version INTEGER, effect TEXT, status TEXT NOT NULL, attempt INTEGER NOT NULL,
        started TEXT NOT NULL, ended TEXT,
        prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,
        model TEXT, error TEXT, input TEXT, output TEXT, prompt TEXT, facts TEXT,
        PRIMARY KEY (run, path)) WITHOUT ROWID""",
    """CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, v INTEGER NOT NULL, run TEXT NOT NULL,
        at TEXT NOT NULL, type TEXT NOT NULL, path TEXT NOT NULL, node TEXT NOT NULL,
        data TEXT NOT NULL)""",
    "CREATE INDEX event_run ON event (run, seq)",
    """CREATE TABLE inbox (
        id TEXT PRIMARY KEY, run TEXT NOT NULL, path TEXT NOT NULL, at TEXT NOT NULL,
        kind TEXT NOT NULL, body TEXT NOT NULL, taken TEXT) WITHOUT ROWID""",
    "CREATE INDEX inbox_run ON inbox (run, path)",
    "CREATE TABLE blob (sha256 TEXT PRIMARY KEY, size INTEGER NOT NULL, body BLOB NOT NULL)",
    """CREATE TABLE cache (
        key TEXT PRIMARY KEY, family TEXT NOT NULL, output TEXT NOT NULL, run TEXT NOT NULL,
        path TEXT NOT NULL, at TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE fix (
        id TEXT PRIMARY KEY, signature TEXT NOT NULL, language TEXT NOT NULL, pattern TEXT NOT NULL,
        edit TEXT NOT NULL, verified TEXT,
        offered INTEGER NOT NULL DEFAULT 0, worked INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    "CREATE INDEX fix_signature ON fix (signature, language)",
    """CREATE TABLE conversation (
        id TEXT PRIMARY KEY, title TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL
        ) WITHOUT ROWID""",
    "CREATE INDEX conversation_updated ON conversation (updated)",
    """CREATE TABLE note (
        id TEXT PRIMARY KEY, at TEXT NOT NULL, text TEXT NOT NULL, tags TEXT NOT NULL
        ) WITHOUT ROWID""",
    """CREATE VIRTUAL TABLE doc_fts USING fts5 (
        kind UNINDEXED, ref UNINDEXED, body, tags, tokenize = 'unicode61 remove_diacritics 2')""",
    """CREATE TABLE lease (
        id INTEGER PRIMARY KEY CHECK (id = 1), owner TEXT NOT NULL, place TEXT NOT NULL,
        host TEXT NOT NULL, pid INTEGER NOT NULL, born TEXT NOT NULL, since TEXT NOT NULL,
        heartbeat REAL NOT NULL)""",
)

_QUESTIONS: Migration = (
    "ALTER TABLE run ADD COLUMN interactive INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE run ADD COLUMN forked TEXT",
    "ALTER TABLE run ADD COLUMN family TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE run ADD COLUMN rerun TEXT",
    "ALTER TABLE step ADD COLUMN key TEXT",
)

_LIBRARY: Migration = (
    """CREATE TABLE schedule (
        id TEXT PRIMARY KEY, workflow TEXT NOT NULL, origin TEXT NOT NULL, cron TEXT, every REAL,
        zone TEXT, inputs TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0, due TEXT,
        started TEXT, run TEXT, error TEXT) WITHOUT ROWID""",
    """CREATE TABLE handled (
        memory TEXT NOT NULL, item TEXT NOT NULL, run TEXT NOT NULL,
        PRIMARY KEY (memory, item)) WITHOUT ROWID""",
    "CREATE INDEX handled_run ON handled (run)",
    """CREATE TRIGGER handled_in_vain AFTER UPDATE OF status ON run
        WHEN NEW.status IN ('failed', 'cancelled')
        BEGIN DELETE FROM handled WHERE run = NEW.id; END""",
    """CREATE TABLE task (
        id TEXT NOT NULL, version INTEGER NOT NULL, at TEXT NOT NULL, about TEXT NOT NULL,
        tags TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (id, version)) WITHOUT ROWID""",
    "ALTER TABLE step ADD COLUMN cost REAL NOT NULL DEFAULT 0",
)

_BEHALF: Migration = (
    "CREATE TABLE behalf (run TEXT PRIMARY KEY, told TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TRIGGER behalf_over AFTER UPDATE OF ended ON run WHEN NEW.ended IS NOT NULL
        BEGIN DELETE FROM behalf WHERE run = NEW.id; END""",
)

_SPOKEN: Migration = ("ALTER TABLE run ADD COLUMN spoken TEXT",)
_UNUSED: Migration = ("DROP TABLE fix",)

_OWNERS: Migration = (
    "ALTER TABLE conversation ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE note ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE note ADD COLUMN source TEXT NOT NULL DEFAULT '{}'",
)
"""`owner` is the name of the key that created the row; empty for the built-in key, which has all
rows from before this format. `source` is JSON: the source of a note."""

_PRUNED: Migration = (
    "CREATE INDEX cache_run ON cache (run)",
    *(
        f"""CREATE INDEX {table}_{column}_blob ON {table} ({column})
            WHERE substr({column}, 1, 8) = '@sha256:'"""
        for table, columns in (
            ("run", ("request", "plan", "inputs", "outputs")),
            ("step", ("input", "output", "prompt", "facts")),
        )
        for column in columns
    ),
)
"""Look-ups of the deletion of a run: its cache entries, and other runs with the same blobs."""


def _words(column: str) -> str:
    """SQL for the texts in a JSON column of `NEW`, from the column or its blob; empty for a value
    that is large, or nested deeper than SQLite supports. Images and audio are not text, and of a
    chat only the last message belongs to the run: the request.
    """
    value = f"""CASE WHEN substr(NEW.{column}, 1, 8) != '@sha256:' THEN NEW.{column} ELSE
        (SELECT CAST(body AS TEXT) FROM blob WHERE sha256 = substr(NEW.{column}, 9)
            AND size <= {SEARCHED}) END"""
    return f"""ifnull((SELECT group_concat(leaf.atom, ' ') FROM (SELECT {value} AS json) AS value,
        json_tree(CASE WHEN json_valid(value.json) THEN value.json END) AS leaf
        WHERE leaf.type = 'text' AND leaf.atom NOT LIKE 'data:%;base64,%'
        AND leaf.fullkey NOT LIKE '$.messages[%'), '')"""


_BODY = f"""NEW.id || ' ' || NEW.workflow || ' ' || {_words("request")} || ' '
    || {_words("inputs")} || ' ' || {_words("outputs")} || ' ' || ifnull(NEW.error, '')"""

_HISTORY: Migration = (
    "ALTER TABLE run ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    """UPDATE run SET owner = (SELECT owner FROM conversation WHERE id = run.conversation)
        WHERE conversation IN (SELECT id FROM conversation WHERE owner != '')""",
    "DROP INDEX run_workflow",
    "CREATE INDEX run_filters ON run (id, status, workflow, caller, owner, started)",
    "CREATE TABLE run_text (number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE)",
    """CREATE VIRTUAL TABLE run_fts USING fts5 (
        body, detail = none, columnsize = 0, tokenize = 'unicode61 remove_diacritics 2')""",
    f"""CREATE TRIGGER run_text_begun AFTER INSERT ON run BEGIN
        INSERT INTO run_text (run) VALUES (NEW.id);
        INSERT INTO run_fts (rowid, body) SELECT number, {_BODY} FROM run_text WHERE run = NEW.id;
        END""",
    f"""CREATE TRIGGER run_text_ended AFTER UPDATE OF outputs, error ON run BEGIN
        UPDATE run_fts SET body = {_BODY}
            WHERE rowid = (SELECT number FROM run_text WHERE run = NEW.id);
        END""",
    """CREATE TRIGGER run_text_removed AFTER DELETE ON run BEGIN
        DELETE FROM run_fts WHERE rowid = (SELECT number FROM run_text WHERE run = OLD.id);
        DELETE FROM run_text WHERE run = OLD.id;
        END""",
    "INSERT INTO run_text (run) SELECT id FROM run",
    "INSERT INTO run_fts (rowid, body) SELECT number, '' FROM run_text",
    "UPDATE run SET error = error",
)
"""Search and filters of the list of runs: the words of each run, maintained by triggers, and one
index with every field of a filter. `owner` is the name of the key that started the run, as in
`_OWNERS`."""

_FIXES: Migration = (
    """CREATE TABLE fix (
        id TEXT PRIMARY KEY, at TEXT NOT NULL, used TEXT NOT NULL, signature TEXT NOT NULL,
        pattern TEXT NOT NULL, language TEXT NOT NULL, edit TEXT NOT NULL, asked INTEGER NOT NULL,
        applied INTEGER NOT NULL, green INTEGER NOT NULL, source TEXT NOT NULL,
        owner TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX fix_pattern ON fix (pattern)",
    "CREATE INDEX fix_used ON fix (owner, used)",
    "CREATE TABLE fix_use (run TEXT, path TEXT, PRIMARY KEY (run, path)) WITHOUT ROWID",
    """CREATE TRIGGER fix_use_over AFTER UPDATE OF ended ON run WHEN NEW.ended IS NOT NULL
        BEGIN DELETE FROM fix_use WHERE run = NEW.id; END""",
)
"""Changes that made failing tests pass. `edit` is JSON: lines of definitions. `fix_use` names the
calls of unfinished runs that have counted a use, so that a resumed run does not count it again."""

_EDITS: Migration = (
    """CREATE TABLE edits (
        model TEXT NOT NULL, format TEXT NOT NULL, asked INTEGER NOT NULL,
        applied INTEGER NOT NULL, green INTEGER NOT NULL, PRIMARY KEY (model, format))
        WITHOUT ROWID""",
    "CREATE TABLE edits_use (run TEXT, path TEXT, PRIMARY KEY (run, path)) WITHOUT ROWID",
    """CREATE TRIGGER edits_use_over AFTER UPDATE OF ended ON run WHEN NEW.ended IS NOT NULL
        BEGIN DELETE FROM edits_use WHERE run = NEW.id; END""",
)
"""How often the answers of a model in an edit format could be applied and made the tests pass.
`edits_use` is for it what `fix_use` is for `fix`."""

_BEFORE = """SELECT max(id) FROM run AS earlier
    WHERE earlier.conversation = run.conversation AND earlier.id < run.id"""

_TURNS: Migration = (
    "ALTER TABLE run ADD COLUMN previous TEXT",
    f"UPDATE run SET previous = ({_BEFORE}) WHERE conversation IS NOT NULL",
    "CREATE INDEX run_previous ON run (previous) WHERE previous IS NOT NULL",
    "ALTER TABLE conversation ADD COLUMN head TEXT",
    "ALTER TABLE conversation ADD COLUMN origin TEXT",
    "ALTER TABLE conversation ADD COLUMN pinned TEXT",
    "ALTER TABLE conversation ADD COLUMN settings TEXT NOT NULL DEFAULT '{}'",
    "CREATE INDEX conversation_head ON conversation (head)",
    "CREATE INDEX conversation_origin ON conversation (origin)",
    """CREATE TRIGGER turn_removed AFTER DELETE ON run WHEN OLD.conversation IS NOT NULL BEGIN
        UPDATE run SET previous = OLD.previous WHERE previous = OLD.id;
        UPDATE conversation SET head = OLD.previous WHERE head = OLD.id;
        UPDATE conversation SET origin = OLD.previous WHERE origin = OLD.id;
        END""",
)
"""The turns of a conversation as a tree: `previous` of a run is the run of the previous turn,
whose id is smaller; runs with the same `previous` are versions of one turn. `head` is the last
turn that is shown; NULL for the latest one. `origin` is the turn of another conversation after
which a branch starts. `pinned` is the time since when a conversation is listed first. `settings`
is JSON: the settings of its turns."""

_PARTS: Migration = (
    """CREATE TABLE blob_part (blob TEXT NOT NULL, part TEXT NOT NULL, PRIMARY KEY (blob, part))
        WITHOUT ROWID""",
    "CREATE INDEX blob_part_part ON blob_part (part)",
    """CREATE TRIGGER blob_removed AFTER DELETE ON blob BEGIN
        DELETE FROM blob WHERE sha256 IN (SELECT part FROM blob_part WHERE blob = OLD.sha256)
            AND NOT EXISTS (SELECT 1 FROM blob_part
                WHERE part = blob.sha256 AND blob_part.blob != OLD.sha256);
        DELETE FROM blob_part WHERE blob = OLD.sha256;
        END""",
)
"""The parts of blobs: base64 of data URLs, which no column names. A part is removed with the last
blob that has it. Blobs from before this format hold their images themselves."""

MIGRATIONS: Sequence[Migration] = (
    _FIRST, _QUESTIONS, _LIBRARY, _BEHALF, _SPOKEN, _UNUSED, _OWNERS, _PRUNED, _HISTORY, _FIXES,
    _TURNS, _EDITS, _PARTS,
)  # fmt: skip
"""Number n brings a file from format n to format n + 1.

Never edit one that was released; append.
"""


def connect(path: Path, *, patience: float) -> sqlite3.Connection:
    """Return a connection with our settings: WAL, synced commits, explicit transactions only."""
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        connection.close()
        raise _unusable(path, error) from error
    return connection


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `LedgerDamaged` unless the whole file can be read; a damaged page would end runs later,
    one by one, with a reason that names no remedy.
    """
    try:
        [verdict] = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise _unusable(path, error) from error
    if verdict != "ok":
        raise LedgerDamaged(path, " ".join(str(verdict).split()))


def _unusable(path: Path, error: sqlite3.Error) -> LedgerFailed:
    if error.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return LedgerDamaged(path, error)
    return LedgerFailed(f"{path} cannot be used as a ledger: {error}.")


def prepare(path: Path, *, patience: float, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Make the file at `path` a ledger of the current format: create it, migrate it, or raise the
    reason.
    """
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    with closing(connect(path, patience=patience)) as connection:
        try:
            found = _format(connection, path, len(migrations))
        except sqlite3.DatabaseError as error:
            raise _unusable(path, error) from error
        if found == len(migrations):
            return
        try:
            if found:
                refuse_if_held(connection, path)
                _copy_beside(connection, path, found)
            _let_shrink(connection)
            connection.execute("BEGIN EXCLUSIVE")
            _migrate(connection, path, migrations)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerFailed(f"{path} could not be brought up to date: {error}.") from error


def _let_shrink(connection: sqlite3.Connection) -> None:
    """Enable the file to free unused pages. A file with tables is rewritten for this, which needs
    as much space as the file itself.
    """
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != _INCREMENTAL:
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
        connection.execute("VACUUM")


def _format(connection: sqlite3.Connection, path: Path, latest: int) -> int:
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if tables and mark != APPLICATION_ID:
        raise LedgerFailed(f"{path} is a database of another program, not a Hearth ledger.")
    if found > latest:
        raise LedgerTooNew(
            f"{path} has format {found} of a newer Hearth; this one knows formats up to {latest}."
        )
    return found


def _copy_beside(connection: sqlite3.Connection, path: Path, found: int) -> None:
    beside = path.with_name(f"{path.name}.format-{found}")
    os.close(os.open(beside, os.O_CREAT | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(beside)) as copy:
        connection.backup(copy)


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Every missing step, inside an exclusive transaction."""
    found = _format(connection, path, len(migrations))
    for migration in migrations[found:]:
        for statement in migration:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {len(migrations)}")
