"""Selection of the models of a node: its requirements, bound roles, and models that fit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipecatapp.workflow.document.shapes import ShapeError
from pipecatapp.workflow.expressions import render
from pipecatapp.workflow.plan import ModelChoice, PlanNode
from pipecatapp.workflow.tool import Json, ModelFacts, ModelNeeds, Tool


def input_of(
    node: PlanNode,
    tool: Tool,
    names: Mapping[str, Any],
    roles: Mapping[str, ModelChoice],
    facts: ModelFacts,
) -> Json:
    """Return the input for the tool of a node, with its model selected."""
    given: Json = render(node.given, names)
    if node.model is not None:
        _choose(node, tool, given, names, (node.model, roles, facts))
    offered = node.kind == "agent" and given.get("tools")
    if offered and not facts.takes_tools(str(given.get("model"))):
        given["tools"] = []
    return given


def _choose(
    node: PlanNode,
    tool: Tool,
    given: Json,
    names: Mapping[str, Any],
    among: tuple[ModelChoice, Mapping[str, ModelChoice], ModelFacts],
) -> None:
    """Select the model and its fallbacks; `with: {model: …}` has priority."""
    choice, roles, facts = among
    said = render(list(choice.use), names)
    if choice.escalate:
        rising = usable(render(list(choice.escalate), names), roles, facts)
        visit = names["loop"]["index"] if "loop" in names else 0
        said = [rising[min(visit, len(rising) - 1)]]
    if given.get("model"):
        said = [given["model"]]
    wanted = [str(name) for one in said for name in (one if isinstance(one, list) else [one])]
    try:
        first, *others = models_of(choice, wanted, roles, facts)
    except ShapeError:
        if node.effect == "llm":
            raise
        return
    given["model"] = first
    if "repair" in tool.takes.model_fields and "repair" in roles:
        given.setdefault("repair", models_of(choice, ["repair"], roles, facts)[0])
    if others and "fallback" in tool.takes.model_fields:
        given.setdefault("fallback", others)


def usable(
    escalate: Sequence[Any], roles: Mapping[str, ModelChoice], facts: ModelFacts
) -> list[str]:
    """Return the names of an escalation that exist, as roles or as models.

    An expression may return a list of names. Without any, the role `default` is used.
    """
    names = [str(name) for one in escalate for name in (one if isinstance(one, list) else [one])]
    return [name for name in names if name in roles or facts.knows(name)] or ["default"]


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
    """Yield the models of some names; a role may be bound to roles, and each adds requirements."""
    for name in names:
        role = roles.get(name)
        if role is None or name in inside:
            yield name, wants
        else:
            yield from _bound(role.use, wants.and_also(role.wants), roles, inside | {name})
