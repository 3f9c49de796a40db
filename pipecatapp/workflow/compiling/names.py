"""Names that a node can read at a position of a document, with the schema of each."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeVar

from pipecatapp.workflow.document.model import Node
from pipecatapp.workflow.tool import Json

TEXT: Json = {"type": "string"}
RUN: Json = {"type": "object", "properties": {"id": TEXT, "request": TEXT}}


T = TypeVar("T")


class Layered(Mapping[str, T]):
    """Mappings laid over each other, the strongest first, of which nothing is copied."""

    def __init__(self, *layers: Mapping[str, T], hidden: Collection[str] = ()) -> None:
        """`hidden`: names that no layer provides."""
        self._layers, self._hidden = layers, hidden

    def __getitem__(self, name: str) -> T:
        if name not in self._hidden:
            for layer in self._layers:
                if name in layer:
                    return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(name for layer in reversed(self._layers) for name in layer)
        return (name for name in names if name not in self._hidden)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Later(Mapping[str, str]):
    """The steps after the one at `index`, with the reasons why that one cannot read them."""

    def __init__(self, places: Mapping[str, int], index: int) -> None:
        self._places, self._index = places, index

    def __getitem__(self, name: str) -> str:
        if self._places.get(name, -1) <= self._index:
            raise KeyError(name)
        return "it comes later in these steps"

    def __iter__(self) -> Iterator[str]:
        return (name for name, place in self._places.items() if place > self._index)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Visible:
    """The readable names at a position: the schema of each, and reasons for unreadable ones."""

    known: Mapping[str, Json]
    barred: Mapping[str, str] = field(default_factory=dict)
    given: frozenset[str] = frozenset({"inputs", "run"})
    """Names that are not nodes."""

    def among(self, gives: Mapping[str, Json], barred: Mapping[str, str]) -> "Visible":
        """Return the names inside a scope whose nodes have these outputs."""
        known = Layered(gives, self.known)
        return replace(self, known=known, barred=Layered(barred, self.barred))

    def again(self, before: Json, **items: Json) -> "Visible":
        """Return the names inside a repeated node; `before` is the output schema of a visit."""
        loop = {
            "type": "object",
            "properties": {
                "index": {"type": "integer"},
                "first": {"type": "boolean"},
                "parent": self.known.get("loop", {"type": "null"}),
            },
        }
        names = {"loop": loop, "prev": before, **items}
        barred = Layered(self.barred, hidden=names)
        return Visible(Layered(names, self.known), barred, self.given | names.keys())

    def without(self, name: str, why: str) -> "Visible":
        """The same, but for one name."""
        return replace(self, barred=Layered({name: why}, self.barred))

    def after(self, node: Node, gives: Mapping[str, Json]) -> "Visible":
        """Where a visit of `node` has ended: it, and what it is made of, can be read."""
        barred = Layered(self.barred, hidden=(node.id,))
        return Visible(Layered(gives, self.known), barred, self.given | gives.keys())


def schema_of(value: Any) -> Json:
    """The schema that a value has which is there already; what it has not cannot be read."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(one) for key, one in value.items()}}
    words: list[tuple[type, str]] = [(str, "string"), (bool, "boolean"), (int, "integer")]
    words += [(float, "number"), (list, "array")]
    return {"type": next((word for kind, word in words if isinstance(value, kind)), "null")}


def looped(visit: Json) -> Json:
    """Return the schema of the outputs of a loop whose iterations have the schema `visit`."""
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
    if order != "steps":
        return frozenset()
    places = {node.id: index for index, node in enumerate(nodes)}
    ends = [-1] * len(nodes)
    for index, node in enumerate(nodes):
        for target in (node.goto, node.on_error.goto):
            start = places.get(target or "", len(nodes))
            if start <= index:
                ends[start] = index
    reached = accumulate(ends, max)
    return frozenset(
        node.id
        for index, (node, end) in enumerate(zip(nodes, reached, strict=True))
        if end >= index
    )


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
