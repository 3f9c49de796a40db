"""The graph of a document that need not compile, for an editor.

While a workflow is being built, most of its states cannot run: an input is missing, a name is not
there yet. The outline shows the nodes and the wires that are written; the compiler says what is
wrong.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Environment, TemplateSyntaxError, nodes
from pydantic import BaseModel, Field

from pipecatapp.workflow.syntax import Path, Source

INPUTS: Final = ":inputs"
OUTPUTS: Final = ":outputs"
"""Paths of the two ends of the workflow; a node cannot have such a name."""
_SCOPES: Final = ("steps", "graph", "else")
_VISITS: Final = frozenset({"last", "all"})
_PARSER: Final = Environment(autoescape=False)


class OutlineNode(BaseModel):
    """A node as it is written. `value` has its fields without inner nodes; `line` and `end` are its
    first and last line, counted from 1.
    """

    path: str
    id: str
    kind: str
    use: str
    parent: str
    about: str
    line: int
    end: int
    value: dict[str, Any]


class OutlineEdge(BaseModel):
    """`data` for an expression, `order` for `needs` and steps, `jump` for `goto`."""

    origin: str = Field(serialization_alias="from")
    to: str
    kind: str


class Outline(BaseModel):
    """Nodes by path with their wires; `steps` is true if the nodes of the workflow run in order."""

    steps: bool
    nodes: list[OutlineNode]
    edges: list[OutlineEdge]


@dataclass(frozen=True)
class Found:
    """A node of a document, and where it is in the values."""

    path: str
    scope: str
    at: Path
    value: Mapping[str, Any]
    before: str = ""
    """The node before it in `steps`."""


def outline(value: Mapping[str, Any], source: Source) -> Outline:
    """Return the graph that a document describes; parts that are not nodes are left out."""
    found = {each.path: each for each in nodes_of(value)}
    drawn = [_drawn(each, source) for each in found.values()]
    ends = [_end(INPUTS, value, source), *drawn, _end(OUTPUTS, value, source)]
    edges: dict[tuple[str, str], str] = {}
    for each in found.values():
        for kind, origin in _wires(each, found):
            edges.setdefault((origin, each.path), kind)
        goto = each.value.get("goto")
        if isinstance(goto, str) and (target := _join(each.scope, goto)) in found:
            edges.setdefault((each.path, target), "jump")
    for origin in reads(value.get("outputs"), "", found):
        edges.setdefault((origin, OUTPUTS), "data")
    return Outline(
        steps="steps" in value,
        nodes=ends,
        edges=[OutlineEdge(origin=a, to=b, kind=kind) for (a, b), kind in edges.items()],
    )


def nodes_of(holder: Mapping[str, Any], scope: str = "", at: Path = ()) -> Iterator[Found]:
    """Yield the nodes of a scope and of those inside it; nodes of `else` are in the same scope."""
    for key in _SCOPES[:2]:
        yield from _listed(holder.get(key), scope, (*at, key), in_order=key == "steps")


def _listed(items: Any, scope: str, at: Path, *, in_order: bool) -> Iterator[Found]:
    before = ""
    for index, node in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(node, dict) or not isinstance(node.get("id"), str):
            continue
        path = _join(scope, node["id"])
        yield Found(path, scope, (*at, index), node, before if in_order else "")
        before = path
        yield from nodes_of(node, path, (*at, index))
        yield from _listed(node.get("else"), scope, (*at, index, "else"), in_order=in_order)


def reads(value: Any, scope: str, known: Mapping[str, Any]) -> list[str]:
    """Return the paths of the nodes, and `INPUTS`, that the expressions in a value read."""
    chains = [chain for text in texts_of(value) for chain in chains_of(text)]
    return list(dict.fromkeys(path for chain in chains if (path := resolved(chain, scope, known))))


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts of a value that may be expressions, without those of inner nodes."""
    if isinstance(value, str) and "{{" in value:
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _SCOPES:
                yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


def chains_of(text: str) -> list[tuple[str, ...]]:
    """Return the look-ups of a text: `{{ a.b[0].c }}` has `("a", "b", "c")`; none if it is not
    valid.
    """
    try:
        tree = _PARSER.parse(text)
    except TemplateSyntaxError:
        return []
    attributes, items = list(tree.find_all(nodes.Getattr)), list(tree.find_all(nodes.Getitem))
    inner = {*(id(each.node) for each in attributes), *(id(each.node) for each in items)}
    found: list[nodes.Node] = [*attributes, *items, *tree.find_all(nodes.Name)]
    return [chain for each in found if id(each) not in inner and (chain := _chain(each))]


def _chain(node: nodes.Node) -> tuple[str, ...]:
    if isinstance(node, nodes.Name):
        return (node.name,)
    if isinstance(node, nodes.Getattr):
        outer = _chain(node.node)
        return (*outer, node.attr) if outer else ()
    return _chain(node.node) if isinstance(node, nodes.Getitem) else ()


def resolved(chain: Iterable[str], scope: str, known: Mapping[str, Any]) -> str:
    """Return the path of the node that a look-up in a scope reads; empty if it reads none."""
    names = [name for name in chain if name not in _VISITS]
    if names and names[0] == "prev":
        names = names[1:]
    if not names:
        return ""
    if names[0] == "inputs":
        return INPUTS
    while (path := _join(scope, names[0])) not in known:
        if not scope:
            return ""
        scope = scope.rpartition("/")[0]
    for name in names[1:]:
        if (inner := _join(path, name)) not in known:
            break
        path = inner
    return path


def _wires(node: Found, known: Mapping[str, Found]) -> Iterator[tuple[str, str]]:
    own = {key: inner for key, inner in node.value.items() if key not in _SCOPES}
    inside = node.path + "/"
    for origin in reads(own, node.scope, known):
        if origin != node.path and not origin.startswith(inside):
            yield "data", origin
    needs = node.value.get("needs")
    for name in [needs] if isinstance(needs, str) else needs if isinstance(needs, list) else []:
        if (path := _join(node.scope, str(name))) in known:
            yield "order", path
    if node.before:
        yield "order", node.before


def _drawn(node: Found, source: Source) -> OutlineNode:
    value = {key: inner for key, inner in node.value.items() if key not in _SCOPES}
    scopes = [key for key in ("steps", "graph", "goto") if key in node.value]
    use = node.value.get("use")
    return OutlineNode(
        path=node.path,
        id=str(node.value["id"]),
        kind=scopes[0] if scopes else "use",
        use=use if isinstance(use, str) else "",
        parent=node.scope,
        about=str(node.value.get("about") or ""),
        value=value,
        **_lines(node.at, source),
    )


def _end(path: str, document: Mapping[str, Any], source: Source) -> OutlineNode:
    key = path[1:]
    fields = document.get(key)
    return OutlineNode(
        path=path,
        id=key.capitalize(),
        kind="end",
        use="",
        parent="",
        about=f"The {key} of the workflow",
        value=fields if isinstance(fields, dict) else {},
        **_lines((key,), source),
    )


def _lines(at: Path, source: Source) -> dict[str, int]:
    places = [place for place in (source.keys.get(at), source.values.get(at)) if place]
    if not places:
        return {"line": 0, "end": 0}
    inner = [place[0] for path, place in source.values.items() if path[: len(at)] == at]
    return {"line": min(place[0] for place in places) + 1, "end": max(inner, default=0) + 1}


def _join(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name
