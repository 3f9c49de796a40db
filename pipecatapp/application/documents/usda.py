"""A workflow with all that it is composed of, as a scene of OpenUSD in its text form (`.usda`).

Nodes are prims and fields are attributes, `with.text` is `with:text`. Every document is two prims:
its fields and, stronger, its variants and overrides. A layer is one prim. Each refers to the next
weaker one, so OpenUSD's order of strength (local, variants, references) is the same as ours, and
the composed default prim is the output of `hearth flatten`. Weaker prims are a `class`, which
traversals omit.

A text is a `string`, a `token` is JSON: null, objects without keys and lists of several kinds.
`order` states whether the nodes of a scope are steps or a graph, `else_of` the node whose `else`
list contains a node. The result of `append` is written in full, because attributes have no such
operation.

An `append` of a variant that is not selected, to a list of another choice, is omitted.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipecatapp.workflow import Layer, Written
from pipecatapp.workflow.syntax import MERGED, OPINIONS, OWN, Opinions, compose, opinions_of

Leaf = tuple[str, ...]
BLOCK: Final = object()
"""No value, regardless of weaker overrides."""
SCOPES: Final = ("steps", "graph")
_PLAIN: Final[Mapping[type, str]] = {str: "string", bool: "bool", int: "int64", float: "double"}
_STRANGE: Final = re.compile(r"_(?=u[0-9a-f]{4,6}_)|^[0-9]|[^A-Za-z0-9_]")


def usda_text(
    written: Written,
    bases: Mapping[str, Written],
    *,
    layers: Sequence[Layer] = (),
    select: Mapping[str, str] | None = None,
) -> str:
    """The scene; raises `InvalidDocument` where nothing can be composed."""
    composed = compose(written, bases, layers=layers, select=select).value
    scene = _Scene(dict(select or {}))
    scene.document(written, bases)
    for layer in layers:
        scene.stage(f"layer_{layer.id}").lay(layer.document, scene.now)
    return scene.text(composed)


@dataclass
class _Fields:
    """The values that nodes have by now, by node and field, and every field that may have one."""

    values: dict[str, dict[Leaf, Any]] = field(default_factory=dict)
    known: dict[str, set[Leaf]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Nodes that some opinion leaves out."""

    def copy(self) -> "_Fields":
        """Return a copy for a variant, which shares only `known` and `gone`."""
        values = {node: dict(said) for node, said in self.values.items()}
        return _Fields(values, self.known, self.gone)


@dataclass
class _Prim:
    """The fields of one prim for the workflow and its nodes, by path (empty for the workflow)."""

    name: str
    under: str | None = None
    said: dict[str, dict[Leaf, Any]] = field(default_factory=dict)
    active: dict[str, bool] = field(default_factory=dict)
    variants: dict[str, dict[str, "_Prim"]] = field(default_factory=dict)

    def set(self, node: str, at: Leaf, value: Any, now: _Fields) -> None:
        """A field; what is known of it and of its parts has no value any more."""
        leaves = dict(_leaves(at, value))
        for old in sorted(now.known.setdefault(node, set()) - leaves.keys()):
            if old[: len(at)] == at or at[: len(old)] == old:
                self._say(node, old, BLOCK, now)
        for leaf, one in leaves.items():
            self._say(node, leaf, one, now)

    def put(self, node: str, value: Mapping[str, Any], now: _Fields, *, after: str = "") -> None:
        """A whole node, with those inside it, in the place of one that was there."""
        fields = {key: said for key, said in value.items() if key not in ("id", "else", *SCOPES)}
        fields |= {"order": next(key for key in SCOPES if key in value)} if _is_scope(value) else {}
        fields |= {"else_of": after} if after else {}
        leaves = {leaf: one for key, said in fields.items() for leaf, one in _leaves((key,), said)}
        self.said.setdefault(node, {})
        for old in sorted(now.known.setdefault(node, set()) - leaves.keys()):
            self._say(node, old, BLOCK, now)
        for leaf, one in leaves.items():
            self._say(node, leaf, one, now)
        if node in now.gone:
            self.active[node] = True
        self.nodes(node, value, now)

    def nodes(self, scope: str, holder: Mapping[str, Any], now: _Fields) -> None:
        """The nodes of a scope; others of it are left out."""
        found = {name: (node, after) for name, node, after in _nodes(holder, "")}
        inside = {one for one in now.known if one and one.rpartition("/")[0] == scope}
        for path in sorted(inside - {_join(scope, name) for name in found}):
            self.disable(path, now)
        for name, (node, after) in found.items():
            self.put(_join(scope, name), node, now, after=after)

    def disable(self, node: str, now: _Fields) -> None:
        """Leave a node out, with those of its `else` list."""
        scope, _, name = node.rpartition("/")
        self.active[node] = False
        now.gone.add(node)
        for path in [one for one in now.values if one == node or one.startswith(f"{node}/")]:
            del now.values[path]
        for path, said in list(now.values.items()):
            if path.rpartition("/")[0] == scope and said.get(("else_of",)) == name:
                self.disable(path, now)

    def lay(self, opinions: Opinions, now: _Fields) -> None:
        """Opinions, in the order in which they are laid."""
        for add in opinions.add:
            self.put(_join(add.scope, str(add.node.get("id"))), add.node, now)
        for path, value in opinions.set.items():
            self.set(*_field(path), value, now)
        for path, values in opinions.append.items():
            node, at = _field(path)
            self.set(node, at, [*now.values[node][at], *values], now)
        for path in opinions.disable:
            self.disable(path, now)

    def _say(self, node: str, leaf: Leaf, value: Any, now: _Fields) -> None:
        self.said.setdefault(node, {})[leaf] = value
        now.known.setdefault(node, set()).add(leaf)
        values = now.values.setdefault(node, {})
        if value is BLOCK:
            values.pop(leaf, None)
        else:
            values[leaf] = value


class _Scene:
    """The prims of a scene, the weakest first."""

    def __init__(self, select: dict[str, str]) -> None:
        self.now, self.select = _Fields(), select
        self._prims: list[_Prim] = []

    def stage(self, name: str) -> _Prim:
        """A prim that is stronger than all before."""
        known = {one.name for one in self._prims}
        plain = _name(name)
        number = next(n for n in range(1, len(known) + 2) if _numbered(plain, n) not in known)
        under = self._prims[-1].name if self._prims else None
        self._prims.append(_Prim(_numbered(plain, number), under))
        return self._prims[-1]

    def document(self, written: Written, bases: Mapping[str, Written]) -> None:
        """Add its base, its fields, its variants and its overrides."""
        value, source = written.value, written.source
        self.select = {**(value.get("select") or {}), **self.select}
        if (base := value.get("extends")) is not None:
            self.document(bases[str(base)], bases)
        self._state(value)
        prim = self.stage(f"workflow_{value.get('id')}")
        for axis, choices in (value.get("variants") or {}).items():
            prim.variants[axis] = {}
            for choice, said in choices.items():
                held = prim.variants[axis][str(choice)] = _Prim(str(choice))
                chosen = self.select.get(axis) == choice
                opinions = opinions_of(said or {}, source, ("variants", axis, str(choice)))
                if not chosen:
                    opinions = _possible(opinions, self.now)
                held.lay(opinions, self.now if chosen else self.now.copy())
        own = {key: value[key] for key in OPINIONS if key in value}
        prim.lay(opinions_of(own, source, ()), self.now)

    def _state(self, value: Mapping[str, Any]) -> None:
        prim = self.stage(f"stated_{value.get('id')}")
        for key, said in value.items():
            if key in OWN:
                continue
            if key in SCOPES:
                prim.set("", ("order",), key, self.now)
                prim.nodes("", {key: said}, self.now)
            elif key in MERGED and isinstance(said, dict) and self._is_object(key):
                for name, inner in said.items():
                    prim.set("", (key, name), inner, self.now)
            else:
                prim.set("", (key,), said, self.now)

    def _is_object(self, key: str) -> bool:
        held = self.now.values.get("", {}).items()
        return any(leaf[0] == key and (len(leaf) > 1 or one == {}) for leaf, one in held)

    def text(self, composed: Mapping[str, Any]) -> str:
        """The file; the order of nodes is that of the composed workflow."""
        last = self._prims[-1]
        lines = ["#usda 1.0", "(", f'    defaultPrim = "{last.name}"', ")"]
        for prim in self._prims:
            top = prim is last
            head = "def" if top else "class"
            more = [f"prepend references = </{prim.under}>"] if prim.under else []
            more += self._choices(prim) if top else []
            if prim.variants:
                names = ", ".join(_text(_name(axis)) for axis in reversed(prim.variants))
                more.append(f"prepend variantSets = [{names}]")
            lines += ["", *_opened(head, prim.name, more), "{"]
            order = dict(_orders("", composed)) if top else {}
            lines += [f"    {line}" for line in _body(prim, "", order)]
            for axis, choices in prim.variants.items():
                lines += [f"    variantSet {_text(_name(axis))} = {{"]
                for choice, held in choices.items():
                    inner = [f"            {line}" for line in _body(held, "", {})]
                    lines += [f"        {_text(_name(choice))} {{", *inner, "        }"]
                lines += ["    }"]
            lines += ["}"]
        return "\n".join([*lines, ""])

    def _choices(self, top: _Prim) -> list[str]:
        axes = {axis for prim in self._prims for axis in prim.variants}
        chosen = {axis: choice for axis, choice in self.select.items() if axis in axes}
        words = [f"string {_name(a)} = {_text(_name(c))}" for a, c in sorted(chosen.items())]
        return ["variants = {", *(f"    {word}" for word in words), "}"] if words else []


def _possible(opinions: Opinions, now: _Fields) -> Opinions:
    """Return the overrides of a variant that is not selected, without an `append` to a list that
    exists only in another selection.
    """
    held = {path for path in opinions.append if _held(now, *_field(path))}
    append = {path: said for path, said in opinions.append.items() if path in held}
    return opinions.model_copy(update={"append": append})


def _held(now: _Fields, node: str, at: Leaf) -> bool:
    return isinstance(now.values.get(node, {}).get(at), list)


def _body(prim: _Prim, scope: str, order: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the lines of a prim for one node, and for the nodes inside it."""
    if len(order.get(scope, ())) > 1:
        yield f"reorder nameChildren = [{', '.join(_text(one) for one in order[scope])}]"
    for leaf, value in prim.said.get(scope, {}).items():
        yield _attribute(leaf, value)
    paths = [*prim.said, *prim.active, *(one for one in order if one)]
    below = f"{scope}/" if scope else ""
    inside = (path.removeprefix(below) for path in paths if path and path.startswith(below))
    for name in dict.fromkeys(path.partition("/")[0] for path in inside):
        path = below + name
        about = []
        if path in prim.active:
            about = [f"active = {str(prim.active[path]).lower()}"]
        yield from _opened("def" if path in prim.said else "over", name, about)
        yield "{"
        yield from (f"    {line}" for line in _body(prim, path, order))
        yield "}"


def _opened(head: str, name: str, more: Iterable[str]) -> list[str]:
    about = [f"    {line}" for line in more]
    return [f"{head} {_text(name)} (", *about, ")"] if about else [f"{head} {_text(name)}"]


def _attribute(leaf: Leaf, value: Any) -> str:
    name = ":".join(map(_name, leaf))
    if value is BLOCK:
        return f"custom token {name} = None"
    kind = _PLAIN.get(type(value), "")
    if kind and (kind != "int64" or -(2**63) <= value < 2**63):
        return f"custom {kind} {name} = {_literal(value)}"
    kinds = {type(one) for one in value} if isinstance(value, list) else set()
    if kinds == {str}:
        return f"custom string[] {name} = [{', '.join(map(_literal, value))}]"
    return f"custom token {name} = {_text(json.dumps(value, ensure_ascii=False))}"


def _literal(value: Any) -> str:
    return _text(value) if isinstance(value, str) else str(value).lower()


def _text(value: str) -> str:
    """A text in quotes, as Sdf reads it: on one line, what is not printable in hexadecimal."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\x{ord(m[0]):02x}", escaped) + '"'


def _leaves(at: Leaf, value: Any) -> Iterator[tuple[Leaf, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves((*at, key), inner)
    else:
        yield at, value


def _nodes(holder: Mapping[str, Any], after: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """The nodes of one scope, those of `else` lists with the node that they belong to."""
    for key in SCOPES if not after else ("else",):
        for node in holder.get(key) or ():
            name = str(node.get("id"))
            yield name, node, after
            yield from _nodes(node, name)


def _orders(scope: str, holder: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    found = list(_nodes(holder, ""))
    if found:
        yield scope, [name for name, _, _ in found]
    for name, node, _ in found:
        yield from _orders(_join(scope, name), node)


def _is_scope(node: Mapping[str, Any]) -> bool:
    return any(key in node for key in SCOPES)


def _field(path: str) -> tuple[str, Leaf]:
    node, _, names = path.partition(".")
    return node, tuple(names.split("."))


def _join(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name


def _name(text: str) -> str:
    """A text as a name of OpenUSD; other letters are written `_u002d_`."""
    return _STRANGE.sub(lambda m: f"_u{ord(m[0]):04x}_", text) or "_"


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"
