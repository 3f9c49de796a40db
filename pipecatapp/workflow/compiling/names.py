"""What a node can read: the names at one place of a document, and what stands under each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipecatapp.workflow.document.model import Node
from pipecatapp.workflow.tool import Json

TEXT: Json = {"type": "string"}
RUN: Json = {"type": "object", "properties": {"id": TEXT, "request": TEXT}}


@dataclass(frozen=True)
class Visible:
    """Names as they can be read at one place: what each gives, and why some cannot be read."""

    known: Mapping[str, Json]
    barred: Mapping[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset({"inputs", "run"})
    """Those of the names that are no nodes."""

    def among(self, gives: Mapping[str, Json], barred: Mapping[str, str]) -> "Visible":
        """Inside a scope whose nodes give this."""
        return replace(self, known={**self.known, **gives}, barred={**self.barred, **barred})

    def again(self, before: Json, **items: Json) -> "Visible":
        """Where something is visited more than once; `before` is what a visit gives."""
        loop = {
            "type": "object",
            "properties": {
                "index": {"type": "integer"},
                "first": {"type": "boolean"},
                "parent": self.known.get("loop", {"type": "null"}),
            },
        }
        names = {"loop": loop, "prev": before, **items}
        barred = {name: why for name, why in self.barred.items() if name not in names}
        return Visible({**self.known, **names}, barred, self.given | names.keys())

    def without(self, name: str, why: str) -> "Visible":
        """The same, but for one name."""
        return replace(self, barred={**self.barred, name: why})

    def after(self, node: Node, gives: Mapping[str, Json]) -> "Visible":
        """Where a visit of `node` has ended: it, and what it is made of, can be read."""
        barred = {name: why for name, why in self.barred.items() if name != node.id}
        return Visible({**self.known, **gives}, barred, self.given | gives.keys())


def schema_of(value: Any) -> Json:
    """The schema that a value has which is there already; what it has not cannot be read."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(one) for key, one in value.items()}}
    words: list[tuple[type, str]] = [(str, "string"), (bool, "boolean"), (int, "integer")]
    words += [(float, "number"), (list, "array")]
    return {"type": next((word for kind, word in words if isinstance(value, kind)), "null")}


def looped(visit: Json) -> Json:
    """What a loop gives whose visits give `visit`."""
    return {
        "type": "object",
        "properties": {
            "all": {"type": "array", "items": visit},
            "last": visit,
            "count": {"type": "integer"},
        },
    }


def loops(node: Node) -> bool:
    """Whether a node is visited any number of times by itself."""
    return node.each is not None or node.during is not None or node.until is not None


def back_over(order: str, nodes: list[Node]) -> frozenset[str]:
    """The nodes of these steps that a jump leads back over: they may be visited again."""
    places = {node.id: index for index, node in enumerate(nodes)}
    found: set[str] = set()
    for index, node in enumerate(nodes if order == "steps" else []):
        for target in (node.goto, node.on_error.goto):
            start = places.get(target or "", len(nodes))
            found.update(other.id for other in nodes[start : index + 1])
    return frozenset(found)


def loop_facts(node: Node) -> dict[str, Any] | None:
    """The loop of a node as a plan keeps it."""
    common = {"max": node.max, "on_max": node.on_max, "stuck_on": node.stuck_on}
    if node.each is not None:
        each = node.each
        facts = {"kind": "for", "over": each.each, "name": each.name, "parallel": each.parallel}
        return {**facts, **common}
    if node.during is not None:
        return {"kind": "while", "over": node.during, **common}
    return {"kind": "until", "over": node.until, **common} if node.until is not None else None
