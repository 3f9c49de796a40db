"""Fixes: changes that made a failing test pass, found again by the signature of its error."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from sqlite3 import Row
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from pipecatapp.workflow import Ledger
from pipecatapp.workflow.storage import Statement, clean, now

MOST: Final = 2000
"""Fixes of one owner that are stored; of more, the ones that were not used for the longest time go.
"""
LARGEST: Final = 16_384
"""Characters of the changed lines of a fix with their context; a larger change is too special."""
SIGNATURE: Final = 5000
"""Characters of a signature."""
COUNTED: Final = 1_000_000
"""Tries that an imported fix may claim."""

Signature = Annotated[str, StringConstraints(min_length=1, max_length=SIGNATURE)]
Name = Annotated[str, StringConstraints(max_length=500)]
Line = Annotated[str, StringConstraints(pattern=r"^[ +-][^\n]*$", max_length=LARGEST)]


class SymbolChange(BaseModel):
    """Changed lines of one definition, or of a file outside its definitions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, StringConstraints(min_length=1, max_length=1000)]
    """The file, from the folder of the project where the fix was found."""
    symbol: Name
    """Qualified name of the definition; empty outside of one."""
    lines: Annotated[tuple[Line, ...], Field(min_length=1)]
    """As in a unified diff: each line begins with a space (context), `-` (removed) or `+`
    (added)."""

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts or not self.path.isprintable():
            raise ValueError("path must be a relative path without ..")
        if all(line[0] == " " for line in self.lines):
            raise ValueError("lines must remove or add a line")
        if not any(line[0] != "+" and line[1:].strip() for line in self.lines):
            raise ValueError("lines must have a line that is not added, to find the place")
        return self


class FixEntry(BaseModel):
    """A fix without its home: what is exported and imported."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    signature: Signature
    """The signature of the error: type, normalised message and symbol, as in `code.run`."""
    language: Name
    """Of the changed files, such as Python; empty if it is not known."""
    pattern: Signature
    """The signature without its symbol."""
    edit: Annotated[tuple[SymbolChange, ...], Field(min_length=1, max_length=100)]
    at: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)$")]
    """When it was stored: ISO 8601, UTC."""
    asked: int = Field(ge=1, le=COUNTED)
    """How often it was tried or found, the first time included."""
    applied: int = Field(ge=0)
    """How often its change could be applied."""
    green: int = Field(ge=0)
    """How often the failing test passed then, and no other test failed."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if not self.green <= self.applied <= self.asked:
            raise ValueError("green must not be above applied, nor applied above asked")
        if not self.signature.startswith(self.pattern):
            raise ValueError("signature must begin with pattern")
        if sum(len(line) for change in self.edit for line in change.lines) > LARGEST:
            raise ValueError(f"the lines have more than {LARGEST} characters")
        return self


class Fix(FixEntry):
    """A stored fix. `owner` is the name of a key, empty for the built-in one."""

    id: str
    used: str
    """When it was stored or last tried: ISO 8601, UTC."""
    source: str
    """The run that found it; `import` for an imported one."""
    owner: str = ""

    @property
    def rate(self) -> float:
        """Estimated probability that it helps: the counts plus one success and one failure, so that
        a single success weighs less than nine of ten (Laplace's rule of succession).
        """
        return (self.green + 1) / (self.applied + 2)


def identity(signature: str, edit: Sequence[SymbolChange], owner: str) -> str:
    """Return the id of a fix, which is the same for the same error, change and owner."""
    content = [signature, [change.model_dump(mode="json") for change in edit], owner]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


class Attempt(BaseModel):
    """How one call of a run tried a fix; `path` names the call, so it is counted only once."""

    model_config = ConfigDict(frozen=True)

    run: str
    path: str
    applied: bool
    green: bool


async def remember(
    ledger: Ledger, signature: str, pattern: str, language: str, edit: Sequence[SymbolChange],
    attempt: Attempt, *, owner: str = "",
) -> Fix:  # fmt: skip
    """Store a fix that made its test pass, or count one more success of the same one.

    Raises `ValueError` (pydantic's) for a change that is too large or cannot be found again.
    """
    entry = FixEntry(
        signature=clean(signature), language=language, pattern=clean(pattern), edit=tuple(edit),
        at=now(), asked=1, applied=1, green=1,
    )  # fmt: skip
    id = identity(entry.signature, entry.edit, owner)
    insert = f"{_INSERT} WHERE NOT EXISTS ({_COUNTED})"
    row = _row(id, entry, source=attempt.run, owner=owner, counts=(0, 0, 0))
    await ledger.submit(
        "",
        [(insert, (*row, attempt.run, attempt.path)), *_counting(id, attempt), _pruning(owner)],
    )
    found = show(ledger, id, owner=owner)
    # Another call may have removed it in the meantime, so what was stored is built here as well.
    return found or Fix(**dict(entry), id=id, used=entry.at, source=attempt.run, owner=owner)


async def count(ledger: Ledger, id: str, attempt: Attempt, *, owner: str = "") -> Fix | None:
    """Count how a stored fix did; None where it was removed or belongs to another owner."""
    if show(ledger, id, owner=owner) is None:
        return None
    await ledger.submit("", _counting(id, attempt))
    return show(ledger, id, owner=owner)


def matching(ledger: Ledger, signature: str, pattern: str, *, owner: str = "") -> list[Fix]:
    """The fixes for an error, the best first: those with its signature before those with the same
    pattern, then by success rate, then the newest. Only those of `owner`; all for the built-in key.
    """
    sql = "SELECT * FROM fix WHERE pattern = ? AND ? IN ('', owner) ORDER BY used DESC, id"
    found = [_fix(row) for row in ledger.read.rows(sql, (clean(pattern), owner))]
    return sorted(found, key=lambda fix: (fix.signature != signature, -fix.rate))


def find(ledger: Ledger, query: str = "", limit: int = MOST, *, owner: str = "") -> list[Fix]:
    """The fixes whose signature, language, files or symbols have all words of `query`, the last
    used first. Only those of `owner`; all of them for the built-in key.
    """
    condition, values = _having(query, owner)
    sql = f"SELECT * FROM fix WHERE {condition} ORDER BY used DESC, id LIMIT ?"
    return [_fix(row) for row in ledger.read.rows(sql, (*values, limit))]


def number(ledger: Ledger, query: str = "", *, owner: str = "") -> int:
    """How many fixes `find` has without a limit."""
    condition, values = _having(query, owner)
    return int(ledger.read.rows(f"SELECT count(*) FROM fix WHERE {condition}", values)[0][0])


def _having(query: str, owner: str) -> tuple[str, tuple[str, ...]]:
    """The condition in SQL that a fix is of an owner and has all words, and its values."""
    words = clean(query).split()
    has = " AND instr(lower(signature || ' ' || language || ' ' || edit), lower(?))"
    return f"? IN ('', owner){has * len(words)}", (owner, *words)


def show(ledger: Ledger, id: str, *, owner: str = "") -> Fix | None:
    """One fix; None where there is none or where it belongs to another owner."""
    rows = ledger.read.rows("SELECT * FROM fix WHERE id = ? AND ? IN ('', owner)", (id, owner))
    return _fix(rows[0]) if rows else None


async def forget(ledger: Ledger, ids: Sequence[str], *, owner: str = "") -> str | None:
    """Remove fixes, all or none; returns the first id that does not belong to the owner, else
    None."""
    missing = next((id for id in ids if show(ledger, id, owner=owner) is None), None)
    if missing is None:
        await ledger.submit("", [("DELETE FROM fix WHERE id = ?", (id,)) for id in ids])
    return missing


async def take_in(ledger: Ledger, entries: Sequence[FixEntry], *, owner: str = "") -> int:
    """Store entries of another instance, all or none; returns the number of new ones. An existing
    entry is not changed, so importing the same file again has no effect.
    """
    rows = {
        id: _row(id, entry, source="import", owner=owner)
        for entry in entries
        for id in (identity(entry.signature, entry.edit, owner),)
    }
    new = [row for id, row in rows.items() if show(ledger, id) is None]
    await ledger.submit("", [*((_INSERT, row) for row in new), _pruning(owner)])
    return len(new)


_COLUMNS: Final = (
    "id", "at", "used", "signature", "pattern", "language", "edit", "asked", "applied", "green",
    "source", "owner",
)  # fmt: skip
_INSERT: Final = f"""INSERT OR IGNORE INTO fix ({", ".join(_COLUMNS)})
    SELECT {", ".join("?" * len(_COLUMNS))}"""
_COUNTED: Final = "SELECT 1 FROM fix_use WHERE run = ? AND path = ?"
_COUNT: Final = f"""UPDATE fix SET asked = asked + 1, applied = applied + ?, green = green + ?,
    used = ? WHERE id = ? AND NOT EXISTS ({_COUNTED})"""

Value = str | int


def _row(
    id: str, entry: FixEntry, *, source: str, owner: str, counts: tuple[int, int, int] | None = None
) -> tuple[Value, ...]:
    edit = json.dumps([change.model_dump(mode="json") for change in entry.edit], ensure_ascii=False)
    return (
        id, entry.at, now(), entry.signature, entry.pattern, entry.language, edit,
        *(counts or (entry.asked, entry.applied, entry.green)), source, owner,
    )  # fmt: skip


def _counting(id: str, attempt: Attempt) -> list[Statement]:
    """Count an attempt, unless this call has counted it before it was cut off and made again."""
    call = (attempt.run, attempt.path)
    numbers = (int(attempt.applied), int(attempt.green), now(), id)
    mark = "INSERT OR IGNORE INTO fix_use (run, path) VALUES (?, ?)"
    return [(_COUNT, (*numbers, *call)), (mark, call)]


def _pruning(owner: str) -> Statement:
    sql = """DELETE FROM fix WHERE id IN
        (SELECT id FROM fix WHERE owner = ? ORDER BY used DESC, id LIMIT -1 OFFSET ?)"""
    return sql, (owner, MOST)


def _fix(row: Row) -> Fix:
    values = {name: row[name] for name in _COLUMNS}
    return Fix.model_validate(values | {"edit": json.loads(row["edit"])})
