"""Which models a node asks: what it wants, what its roles are bound to, and what fits."""

from collections.abc import Iterator, Mapping, Sequence

from pipecatapp.workflow.document.shapes import ShapeError
from pipecatapp.workflow.plan import ModelChoice
from pipecatapp.workflow.tool import ModelFacts, ModelNeeds


def models_of(
    choice: ModelChoice,
    names: Sequence[str],
    roles: Mapping[str, ModelChoice],
    facts: ModelFacts,
) -> list[str]:
    """The ids to ask, the first one first; raises `ShapeError` when none fits."""
    found: list[str] = []
    refused: dict[str, str] = {}
    for name, wants in _bound(names, choice.wants, roles, frozenset()):
        fitting, reason = facts.fitting(name, wants)
        found += fitting
        if not fitting:
            refused[name] = reason
    if not found:
        told = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise ShapeError(f"no model fits ({told or 'none is named'})")
    return list(dict.fromkeys(found))


def _bound(
    names: Sequence[str],
    wants: ModelNeeds,
    roles: Mapping[str, ModelChoice],
    inside: frozenset[str],
) -> Iterator[tuple[str, ModelNeeds]]:
    """The models behind names; a role may be bound to roles, and each adds what it wants."""
    for name in names:
        role = roles.get(name)
        if role is None or name in inside:
            yield name, wants
        else:
            yield from _bound(role.use, wants.and_also(role.wants), roles, inside | {name})
