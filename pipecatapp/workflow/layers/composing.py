"""From a document, what it extends, its variants and its layers to one document."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ruamel.yaml import YAML

from pipecatapp.workflow.document.diagnostic import Diagnostic, InvalidDocument, did_you_mean
from pipecatapp.workflow.document.yaml_text import Path, Source
from pipecatapp.workflow.layers.places import Composed, Fields, NoSuchNode, place_of
from pipecatapp.workflow.layers.written import OPINIONS, Add, Layer, Opinions, Written, opinions_of

OWN = ("extends", "select", "variants", *OPINIONS)
"""Keys that define the composition, and are not in its result."""
MERGED = ("inputs", "outputs", "defaults", "limits")
"""Fields of a document that keep what the extended one has, key by key."""
DEEPEST = 20


@dataclass(frozen=True)
class Opinion:
    """The override of a field by one document: `place` is its position, `what` is set, append, add,
    disable, or `written` for a field of the document itself.
    """

    path: str
    by: str
    what: str
    value: Any
    place: str


@dataclass
class Composition:
    """A composed workflow, with the origin of each part and all overrides."""

    source: Composed
    opinions: list[Opinion] = field(default_factory=list)
    """The weakest first."""

    @property
    def value(self) -> dict[str, Any]:
        """The workflow as a document without layers."""
        return self.source.root

    def explain(self, path: str) -> list[Opinion]:
        """Return all values set for a field or for an object that contains it, the winner first."""
        return [opinion for opinion in reversed(self.opinions) if _about(opinion.path, path)]


def compose(
    written: Written,
    bases: Mapping[str, Written],
    *,
    layers: Sequence[Layer] = (),
    select: Mapping[str, str] | None = None,
) -> Composition:
    """Apply variants and layers to a document and return the result.

    Raises `InvalidDocument`.
    """
    composing = _Composing(bases, dict(select or {}))
    composition = composing.document(written, ())
    for axis in sorted(composing.select.keys() - set(composing.axes)):
        fact = f"there is no variant {axis!r}"
        hint = did_you_mean(axis, composing.axes, otherwise="The workflow has no variants")
        composing.faults.append(written.source.diagnostic(("select", axis), fact, hint))
    for layer in layers:
        name = str(composition.value.get("id"))
        if layer.document.of != name:
            fact = f"the layer is for the workflow {layer.document.of!r}, not for {name!r}"
            composing.faults.append(layer.source.diagnostic(("of",), fact))
        else:
            composing.lay(composition, layer.document, f"layer {layer.id}", layer.source, ())
    if composing.faults:
        raise InvalidDocument(composing.faults)
    return composition


class _Composing:
    """Composes one document; faults are collected."""

    def __init__(self, bases: Mapping[str, Written], select: Mapping[str, str]) -> None:
        self.bases, self.select = bases, select
        self.faults: list[Diagnostic] = []
        self.axes: list[str] = []

    def document(self, written: Written, stack: tuple[str, ...]) -> Composition:
        """A document: what it extends, what it states, its variants, its own opinions."""
        value, source = written.value, written.source
        self.select = {**(value.get("select") or {}), **self.select}
        found = self._base(written, stack)
        self._state(found, value, source)
        for choice, at in self._chosen(value, source):
            by = f"variant {'.'.join(at[1:])}"
            self.lay(found, opinions_of(choice, source, at), by, source, at)
        own = {key: value[key] for key in OPINIONS if key in value}
        self.lay(found, opinions_of(own, source, ()), _name(value), source, ())
        return found

    def _base(self, written: Written, stack: tuple[str, ...]) -> Composition:
        value, source = written.value, written.source
        name = value.get("extends")
        if name is None:
            return Composition(Composed(source))
        base = self.bases.get(str(name))
        if base is None:
            mend = did_you_mean(str(name), self.bases)
            self.faults.append(
                source.diagnostic(("extends",), f"there is no workflow {name!r}", mend)
            )
            return Composition(Composed(source))
        if name in stack or len(stack) >= DEEPEST:
            way = " → ".join([*stack, str(name)])
            self.faults.append(source.diagnostic(("extends",), f"it extends itself: {way}"))
            return Composition(Composed(source))
        return self.document(base, (*stack, str(name)))

    def _chosen(
        self, value: Mapping[str, Any], source: Source
    ) -> Iterator[tuple[Mapping[str, Any], tuple[str, str, str]]]:
        """The choice of each axis: what is selected for this run, or what the document selects."""
        variants = value.get("variants") or {}
        self.axes += list(variants)
        for axis, choices in variants.items():
            choice = self.select.get(axis)
            if choice is None:
                continue
            if not isinstance(choices, dict) or choice not in choices:
                known = choices if isinstance(choices, dict) else {}
                told = f"the variant {axis!r} has no choice {choice!r}"
                self.faults.append(
                    source.diagnostic(("variants", axis), told, did_you_mean(str(choice), known))
                )
                continue
            yield choices[choice] or {}, ("variants", axis, str(choice))

    def _state(self, found: Composition, value: Mapping[str, Any], source: Source) -> None:
        """Apply the fields of a document to the composition."""
        root = found.source.root
        for key, said in value.items():
            if key in OWN:
                continue
            if key in MERGED and isinstance(said, dict) and isinstance(root.get(key), dict):
                for name, inner in said.items():
                    found.source.put(root[key], name, inner, source, (key, name))
            else:
                if key in ("steps", "graph"):
                    root.pop("graph" if key == "steps" else "steps", None)
                found.source.put(root, key, said, source, (key,))
            place = place_of(source, (key,))
            for path, inner in _fields(key, said):
                found.opinions.append(Opinion(path, _name(value), "written", inner, place))

    def lay(
        self, found: Composition, opinions: Opinions, by: str, source: Source, at: tuple[str, ...]
    ) -> None:
        """Lay opinions over a composed document; one about nothing is a fault."""
        fields = Fields(found.source)

        def do(what: str, place: Path, path: str, value: Any, change: Callable[..., None]) -> None:
            where = (*at, what, *place)
            try:
                change(where)
            except NoSuchNode as error:
                self.faults.append(source.diagnostic(where, str(error), error.mend))
            else:
                said = Opinion(path, by, what, value, place_of(source, where))
                found.opinions.append(said)

        for index, add in enumerate(opinions.add):
            path = f"{add.scope}/{add.node.get('id')}" if add.scope else str(add.node.get("id"))
            do("add", (index,), path, add.node, partial(_add, fields, add, source))
        for path, value in opinions.set.items():
            do("set", (path,), path, value, partial(fields.set, path, value, source))
        for path, value in opinions.append.items():
            do("append", (path,), path, value, partial(fields.append, path, value, source))
        for index, path in enumerate(opinions.disable):
            do("disable", (index,), path, None, partial(_disable, fields, path))


def _add(fields: Fields, add: Add, source: Source, at: Path) -> None:
    fields.add(add, source, (*at, "node"))


def _disable(fields: Fields, path: str, _at: Path) -> None:
    fields.disable(path)


def flat_text(composition: Composition) -> str:
    """The composed document as YAML."""
    return yaml_of(composition.value)


def yaml_of(value: Mapping[str, Any]) -> str:
    """A document as YAML."""
    written = io.StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.dump(value, written)
    return written.getvalue()


def _name(value: Mapping[str, Any]) -> str:
    return f"workflow {value.get('id')}"


def _fields(key: str, said: Any) -> Iterator[tuple[str, Any]]:
    """The fields that a document states, by path, nodes by their ids."""
    if key in ("steps", "graph") and isinstance(said, list):
        yield from _node_fields("", said)
    elif isinstance(said, dict):
        yield f".{key}", said
        yield from ((f".{key}.{name}", inner) for name, inner in said.items())
    else:
        yield f".{key}", said


def _node_fields(outer: str, nodes: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for node in nodes:
        if not isinstance(node, dict) or not isinstance(node.get("id"), str):
            continue
        path = f"{outer}/{node['id']}" if outer else node["id"]
        for key, said in node.items():
            if key in ("steps", "graph"):
                yield from _node_fields(path, said if isinstance(said, list) else [])
            elif key == "else":
                yield from _node_fields(outer, said if isinstance(said, list) else [])
            else:
                yield f"{path}.{key}", said
                if isinstance(said, dict):
                    yield from ((f"{path}.{key}.{name}", value) for name, value in said.items())


def _about(said: str, asked: str) -> bool:
    """Return whether an override concerns a field: the field itself, an outer object, or a part."""
    return said == asked or any(
        one.startswith((f"{other}.", f"{other}/")) for one, other in ((said, asked), (asked, said))
    )
