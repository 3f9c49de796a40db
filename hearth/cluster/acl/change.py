"""Describe the writes of a task: a `Change` for each object that differs from its declaration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Declared = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One written object. `before` is None for a new object. Neither side contains a secret."""

    kind: str
    name: str
    before: Declared | None
    after: Declared


def differs(current: Declared | None, wanted: Declared) -> bool:
    """Return whether any declared field differs; undeclared fields are ignored."""
    return current is None or any(not _same(current.get(key), wanted[key]) for key in wanted)


def only(current: Declared | None, wanted: Declared) -> dict[str, Any] | None:
    """Return the current values of the declared fields, for a comparison."""
    return None if current is None else {key: current.get(key) for key in wanted}


def _same(current: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(current, Mapping) and not differs(current, wanted)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        current = current or []
        return len(current) == len(wanted) and all(map(_same, current, wanted))
    return bool(current == wanted) or (not current and not wanted)


def shown(changes: Sequence[Change]) -> dict[str, dict[str, Any]]:
    """Return both sides of all changes in the form that Ansible's diff prints."""
    before = {f"{c.kind} {c.name}": c.before for c in changes if c.before is not None}
    after = {f"{c.kind} {c.name}": c.after for c in changes}
    return {"before": before, "after": after}
