"""How well each model writes changes in each edit format, counted over all repairs."""

from typing import Final, Literal, NamedTuple, get_args

from pipecatapp.workflow import Ledger

EditFormat = Literal["blocks", "function"]
"""SEARCH/REPLACE blocks, or one whole function as JSON."""
FORMATS: Final[tuple[EditFormat, ...]] = get_args(EditFormat)


class Counts(NamedTuple):
    """Numbers of answers that were requested, that could be applied, and that made the tests
    pass."""

    asked: int = 0
    applied: int = 0
    green: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """Add the counts of another source."""
        return Counts(*(one + two for one, two in zip(self, other, strict=True)))


def counts(ledger: Ledger, model: str) -> dict[EditFormat, Counts]:
    """Return the counts of a model, zero for a format that was never requested."""
    rows = ledger.read.rows(
        "SELECT format, asked, applied, green FROM edits WHERE model = ?", (model,)
    )
    stored = {row["format"]: Counts(row["asked"], row["applied"], row["green"]) for row in rows}
    return {format: stored.get(format, Counts()) for format in FORMATS}


async def count(
    ledger: Ledger, model: str, format: EditFormat, call: tuple[str, str], *, applied: bool,
    green: bool,
) -> Counts:  # fmt: skip
    """Count one answer and return the counts.

    `call` is the run and the path of the step that counts: a step that was cut off and is made
    again counts once.
    """
    numbers = (model, format, int(applied), int(green))
    upsert = """INSERT INTO edits (model, format, asked, applied, green)
        SELECT ?, ?, 1, ?, ? WHERE NOT EXISTS (SELECT 1 FROM edits_use WHERE run = ? AND path = ?)
        ON CONFLICT (model, format) DO UPDATE SET asked = asked + 1,
            applied = applied + excluded.applied, green = green + excluded.green"""
    mark = "INSERT OR IGNORE INTO edits_use (run, path) VALUES (?, ?)"
    await ledger.submit("", [(upsert, (*numbers, *call)), (mark, call)])
    return counts(ledger, model)[format]
