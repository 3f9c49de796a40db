"""Divide cases into three splits: learn, select and gate.

The mutator sees `learn`, the search is scored on `select`, and only the gate uses `gate`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from prompt_engineering.cases import Case

Split = Literal["learn", "select", "gate"]
SPLITS: Final[tuple[Split, ...]] = ("learn", "select", "gate")
SHARES: Final[Mapping[Split, float]] = {"learn": 0.2, "select": 0.3, "gate": 0.5}
"""Parts of the cases. The gate needs the most: it sees each case only a few times."""

_FIRST: Final[tuple[Split, ...]] = ("learn", "gate", "select")

Assignment = Mapping[str, Split]
"""Split by id of a case."""


def assign(cases: Iterable[Case], before: Assignment) -> dict[str, Split]:
    """Return the split of each case, and of those assigned before.

    A case keeps its split for ever: a case of `learn` that became one of `gate` would have been
    seen. A new case is assigned by the hash of its id. Of cases with one fingerprint, the first
    ones fill the splits that have no member yet, learn and gate before select, so that learn and
    gate have different members of each kind of failure.
    """
    found = dict(before)
    ordered = sorted(cases, key=lambda case: _hash(case.id))
    groups: dict[str, set[Split]] = {}
    for case in ordered:
        if case.fingerprint and case.id in found:
            groups.setdefault(case.fingerprint, set()).add(found[case.id])
    for case in ordered:
        if case.id in found:
            continue
        group = groups.setdefault(case.fingerprint, set()) if case.fingerprint else {*SPLITS}
        missing = [split for split in _FIRST if split not in group]
        found[case.id] = missing[0] if missing else split_of(case.id)
        group.add(found[case.id])
    return found


def split_of(id: str) -> Split:
    """Return the split that the hash of an id selects."""
    position, total = _hash(id) / 2**64, 0.0
    for split in SPLITS:
        total += SHARES[split]
        if position < total:
            return split
    return SPLITS[-1]


def members(cases: Sequence[Case], assignment: Assignment, split: Split) -> list[Case]:
    """Return the cases of one split, in an order that depends only on their ids."""
    chosen = (case for case in cases if assignment[case.id] == split)
    return sorted(chosen, key=lambda case: _hash(f"order {case.id}"))


def digest(cases: Iterable[Case]) -> str:
    """Return a hash of cases with all of their content: scores with another one do not compare."""
    # Without an empty answer: campaigns that began before cases had one go on.
    texts = sorted(
        case.model_dump_json(exclude=None if case.answer else {"answer"}) for case in cases
    )
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
