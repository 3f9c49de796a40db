"""Paths of fields in a composed document, and where each part of it was written."""

from collections.abc import Iterator
from typing import Any

from pipecatapp.workflow.document.diagnostic import Diagnostic, did_you_mean
from pipecatapp.workflow.document.yaml_text import Path, Source
from pipecatapp.workflow.layers.written import Add


class NoSuchNode(LookupError):
    """An override of a node that does not exist, with a hint at the intended name."""

    def __init__(self, message: str, mend: str = "") -> None:
        self.mend = mend
        super().__init__(message)


class Composed(Source):
    """The positions of all parts of a composed document: in the file that set them last."""

    def __init__(self, main: Source) -> None:
        super().__init__(main.file, main.lines, main.keys, main.values)
        self._main = main
        self.root: dict[str, Any] = {}
        self._whole: dict[int, tuple[Source, Path]] = {}
        self._fields: dict[tuple[int, Any], tuple[Source, Path]] = {}
        self._kept: list[Any] = []
        """Everything that was ever part of it, so that no two parts have one identity."""

    def taken(self, value: Any, source: Source, at: Path) -> Any:
        """Return a copy of a value with its position."""
        if isinstance(value, dict):
            value = {key: self.taken(inner, source, (*at, key)) for key, inner in value.items()}
        elif isinstance(value, list):
            value = [self.taken(inner, source, (*at, i)) for i, inner in enumerate(value)]
        else:
            return value
        self._whole[id(value)] = (source, at)
        self._kept.append(value)
        return value

    def put(self, holder: dict[str, Any], key: str, value: Any, source: Source, at: Path) -> None:
        """Set a field that was written there."""
        holder[key] = self.taken(value, source, at)
        self._fields[id(holder), key] = (source, at)

    def diagnostic(
        self, path: Path, message: str, mend: str = "", *, key: bool = False
    ) -> Diagnostic:
        """A fault at the place that the part was written at."""
        source, at = self._main, Path()
        part: Any = self.root
        for name in path:
            field = self._fields.get((id(part), name))
            part = part[name] if _has(part, name) else None
            source, at = field or self._whole.get(id(part), (source, (*at, name)))
        return source.diagnostic(at, message, mend, key=key)


def _has(part: Any, name: str | int) -> bool:
    if isinstance(part, dict):
        return name in part
    return isinstance(part, list) and isinstance(name, int) and name < len(part)


def place_of(source: Source, path: Path) -> str:
    """File, line and column of something that was written."""
    found = source.diagnostic(path, "", key=True)
    return f"{found.file}:{found.line}:{found.column}"


class Fields:
    """Changes a composed document by the paths of its fields."""

    def __init__(self, source: Composed) -> None:
        self._source = source

    def add(self, add: Add, source: Source, at: Path) -> None:
        """Add a node to a scope."""
        holder = self._node(add.scope)[1] if add.scope else self._source.root
        key = next((key for key in ("steps", "graph") if key in holder), None)
        if key is None:
            raise NoSuchNode(f"{add.scope!r} has no `steps` and no `graph`")
        nodes, index = holder[key], len(holder[key])
        if add.after == "":
            index = 0
        elif add.after is not None:
            ids = [str(node.get("id")) for node in nodes]
            if add.after not in ids:
                mend = did_you_mean(add.after, ids)
                raise NoSuchNode(f"there is no node {add.after!r} there", mend)
            index = ids.index(add.after) + 1
        nodes.insert(index, self._source.taken(add.node, source, at))

    def set(self, path: str, value: Any, source: Source, at: Path) -> None:
        """Set a field."""
        holder, names = self._field(path)
        for name in names[:-1]:
            if not isinstance(holder.get(name), dict):
                holder[name] = {}
            holder = holder[name]
        self._source.put(holder, names[-1], value, source, at)

    def append(self, path: str, values: list[Any], source: Source, at: Path) -> None:
        """Add to the end of a list."""
        holder, names = self._field(path)
        found: Any = holder
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, list):
            raise NoSuchNode(f"there is no list at {path!r} to append to", "Use `set`")
        found.extend(self._source.taken(values, source, at))

    def disable(self, path: str) -> None:
        """Leave a node out."""
        nodes, node = self._node(path)
        nodes[:] = [other for other in nodes if other is not node]

    def _field(self, path: str) -> tuple[dict[str, Any], list[str]]:
        """The node or document that a path is about, and the names of the field in it."""
        head, dot, rest = path.partition(".")
        names = rest.split(".")
        if not dot or not all(names):
            mend = "Write `node.field`, or `.field` for the workflow"
            raise NoSuchNode(f"{path!r} names no field", mend)
        if names[0] in ("id", "steps", "graph", "else"):
            raise NoSuchNode(f"`{names[0]}` cannot be set", "Use `add` and `disable` for nodes")
        return self._node(head)[1] if head else self._source.root, names

    def _node(self, path: str) -> tuple[list[Any], dict[str, Any]]:
        """Return a node by its path, and the list that contains it; raises `NoSuchNode`."""
        nodes: list[Any] = []
        holder = self._source.root
        for name in path.split("/"):
            here = {str(node.get("id")): (nodes, node) for nodes, node in _nodes(holder)}
            if name not in here:
                raise NoSuchNode(f"there is no node {path!r}", did_you_mean(name, here))
            nodes, holder = here[name]
        return nodes, holder


def _nodes(holder: dict[str, Any]) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield the nodes of one scope, including `else` lists, each with the list that contains it."""
    for key in ("steps", "graph"):
        yield from _listed(holder.get(key))


def _listed(nodes: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    for node in nodes if isinstance(nodes, list) else []:
        if isinstance(node, dict):
            yield nodes, node
            yield from _listed(node.get("else"))
