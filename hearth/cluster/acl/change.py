"""Describe the writes of a task: a `Change` for each object that differs from its declaration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Declared = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """`before` is None for what did not exist. Neither side holds a secret."""

    kind: str
    name: str
    before: Declared | None
    after: Declared


def differs(found: Declared | None, wanted: Declared) -> bool:
    """Whether any declared field has another value; fields that nobody declared are left alone."""
    return found is None or any(not _same(found.get(key), wanted[key]) for key in wanted)


def only(found: Declared | None, wanted: Declared) -> dict[str, Any] | None:
    """The declared fields as they were found, to show beside the declaration."""
    return None if found is None else {key: found.get(key) for key in wanted}


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and not differs(found, wanted)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        found = found or []
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    return bool(found == wanted) or (not found and not wanted)


def shown(changes: Sequence[Change]) -> dict[str, dict[str, Any]]:
    """Both sides of all changes in the form that Ansible's diff prints."""
    before = {f"{c.kind} {c.name}": c.before for c in changes if c.before is not None}
    after = {f"{c.kind} {c.name}": c.after for c in changes}
    return {"before": before, "after": after}
