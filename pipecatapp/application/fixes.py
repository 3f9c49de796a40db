"""Fixes that made failing tests pass: find, show, export, import and remove them."""

import json
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from pipecatapp.application.engine import Ledger
from pipecatapp.records import fixes
from pipecatapp.records.fixes import MOST, Fix, FixEntry

__all__ = ["Fix", "FixService", "FixesNotImported", "UnknownFix"]

FORMAT: Final = 1
"""Of an export; a file of another format is refused."""


class UnknownFix(LookupError):
    """The fix does not exist, or belongs to another owner."""


class FixesNotImported(ValueError):
    """The text is not an export, or has entries that are not valid. Nothing was stored."""


class FixService:
    """The fixes in one ledger. `owner` is the name of a key, empty for the built-in one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def find(self, query: str, limit: int, *, owner: str = "") -> list[Fix]:
        """Fixes that have all words of the query, the last used first."""
        return fixes.find(self._ledger, query, limit, owner=owner)

    def number(self, query: str, *, owner: str = "") -> int:
        """How many fixes have all words of the query."""
        return fixes.number(self._ledger, query, owner=owner)

    def show(self, id: str, *, owner: str = "") -> Fix:
        """One fix; raises `UnknownFix`."""
        fix = fixes.show(self._ledger, id, owner=owner)
        if fix is None:
            raise _unknown(id)
        return fix

    def export(self, ids: Sequence[str], *, owner: str = "") -> str:
        """The fixes with these ids, or all of them without ids, as JSON; raises `UnknownFix`.

        Ids, runs and owners are left out: they mean something in one home only.
        """
        chosen = (
            [self.show(id, owner=owner) for id in ids] if ids else self.find("", MOST, owner=owner)
        )
        entries = [fix.model_dump(mode="json", include={*FixEntry.model_fields}) for fix in chosen]
        content = {"format": FORMAT, "fixes": entries}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    async def import_(self, text: str, *, owner: str = "") -> int:
        """Store exported fixes, all or none; returns the number of new ones.

        Raises `FixesNotImported` that names every entry that is not valid, with the reason.
        """
        return await fixes.take_in(self._ledger, _entries(text), owner=owner)

    async def forget(self, ids: Sequence[str], *, owner: str = "") -> None:
        """Remove fixes, all or none; raises `UnknownFix`."""
        missing = await fixes.forget(self._ledger, ids, owner=owner)
        if missing is not None:
            raise _unknown(missing)


def _unknown(id: str) -> UnknownFix:
    return UnknownFix(f"There is no fix {id!r}.")


def _entries(text: str) -> list[FixEntry]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FixesNotImported(f"The file is not valid JSON: {error}.") from error
    listed = content.get("fixes") if isinstance(content, dict) else None
    if not isinstance(listed, list) or content.get("format") != FORMAT:
        raise FixesNotImported(f"The file is not an export of fixes in format {FORMAT}.")
    if len(listed) > MOST:
        raise FixesNotImported(f"The file has {len(listed)} fixes; at most {MOST} are stored.")
    entries, problems = list[FixEntry](), list[str]()
    for number, one in enumerate(listed, 1):
        try:
            entries.append(FixEntry.model_validate_json(json.dumps(one)))
        except ValidationError as error:
            problems.append(f"Fix {number}: {_problem(error.errors()[0])}.")
    if problems:
        raise FixesNotImported("\n".join([*problems, "Nothing was imported."]))
    return entries


def _problem(error: Any) -> str:
    place = ".".join(map(str, error["loc"]))
    message = str(error["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place}: {message}" if place else message
