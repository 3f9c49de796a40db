"""Edits of a document's text that preserve all other lines, with their comments."""

import hashlib
import io
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from pipecatapp.application.documents.cutting import lines_of, moved, without
from pipecatapp.application.documents.outline import OUTPUTS
from pipecatapp.application.documents.renaming import Rename
from pipecatapp.application.documents.wiring import WireRefused, unwire, wire

SCOPES: Final = ("steps", "graph", "else")
MERGE: Final = ("git", "merge-file", "-p", "-q", "--theirs")
"""For texts whose lines differ from ruamel's output: lines next to an edit may be rewritten too."""


_LIST: Final = re.compile(
    r"^( *)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)- ", re.MULTILINE
)
"""The key of a list, whose indentation the others are written with, and its first item."""


class NotEdited(LookupError):
    """An operation names something that the document does not have; nothing was changed."""


class UnknownLayer(LookupError):
    """No layer has this id."""


class DocumentChanged(Exception):
    """The document was changed since it was read: read it again."""


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


class SetField(Part):
    """Set the value of a field: `split/writer.with.text`, or `.limits.nodes` of the workflow
    itself."""

    op: Literal["set"]
    path: str = Field(min_length=1, max_length=1000)
    value: Any


class Remove(Part):
    """Take a node out, `split/writer`, or a field of one, `split/writer.model`."""

    op: Literal["remove"]
    path: str = Field(min_length=1, max_length=1000)


class AddNode(Part):
    """Add a node to a scope (the workflow itself when empty), `after` a sibling or at the end."""

    op: Literal["add"]
    scope: str = Field("", alias="in", max_length=1000)
    after: str | None = Field(None, max_length=200)
    node: dict[str, Any]


class Move(Part):
    """Move a node after another one of its list, or to the start."""

    op: Literal["move"]
    path: str = Field(min_length=1, max_length=1000)
    after: str | None = Field(None, max_length=200)


class RenameNode(Part):
    """Rename a node, with all references in expressions, `needs`, `goto` and `on_error`."""

    op: Literal["rename"]
    path: str = Field(min_length=1, max_length=1000)
    to: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=200)


class Wire(Part):
    """Let the node `to` read `output` of the node `from` (all of it when empty) as its `input`;
    without `input` it only waits for it. `:inputs` and `:outputs` are the ends of the workflow.
    """

    op: Literal["wire"]
    origin: str = Field(alias="from", min_length=1, max_length=1000)
    output: str = Field("", max_length=200)
    to: str = Field(min_length=1, max_length=1000)
    into: str = Field("", alias="input", max_length=1000)


class Unwire(Part):
    """Remove what `wire` wrote: inputs that are one expression which reads `from`, and `needs`."""

    op: Literal["unwire"]
    origin: str = Field(alias="from", min_length=1, max_length=1000)
    to: str = Field(min_length=1, max_length=1000)


class ReplaceRange(Part):
    """Replace the characters from `start` to before `end`, counted from 0, with `text`."""

    op: Literal["replace"]
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    text: str


Operation = Annotated[
    SetField | Remove | AddNode | Move | RenameNode | Wire | Unwire | ReplaceRange,
    Field(discriminator="op"),
]


def fingerprint(text: str) -> str:
    """The ETag of a text: a client that changes the text sends the ETag of the version it read."""
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def difference(before: str, after: str, *, file: str) -> str:
    """A unified diff; empty when nothing changed."""
    ours, theirs = lines_of(before), lines_of(after)
    return "".join(unified_diff(ours, theirs, f"a/{file}", f"b/{file}"))


def edited(text: str, operations: Sequence[Operation]) -> str:
    """The text with the operations done, in their order; raises `NotEdited`."""
    for operation in operations:
        cut = _cut(text, operation)
        text = _done(text, operation) if cut is None else cut
    return text


def _cut(text: str, operation: Operation) -> str | None:
    """Replace a range, or remove or move a node with its complete lines; None if that is not
    possible.
    """
    if isinstance(operation, ReplaceRange):
        if not operation.start <= operation.end <= len(text):
            raise NotEdited(f"The text has {len(text)} characters: the range is outside of it.")
        return text[: operation.start] + operation.text + text[operation.end :]
    if isinstance(operation, Remove) and "." not in operation.path:
        return without(text, operation.path)
    if isinstance(operation, Move):
        nodes, _ = _node(_yaml(text).load(text), operation.path)
        after = None if operation.after is None else _behind(nodes, operation.after, 0) - 1
        return moved(text, operation.path, after)
    return None


def _done(text: str, operation: Operation) -> str:
    yaml = _yaml(text)
    document = yaml.load(text)
    before = _dumped(yaml, document)
    _do(document, operation)
    after = _dumped(yaml, document)
    merged = _merged(text, before, after)
    # Where the indentation is mixed, lines of both kinds may have met.
    return merged if text == before or _equal(merged, after) else after


def _equal(one: str, other: str) -> bool:
    """Return whether two texts have the same values; False if the first is not YAML."""
    reader = YAML(typ="safe", pure=True)
    try:
        return bool(reader.load(one) == reader.load(other))
    except YAMLError:
        return False


def _yaml(text: str) -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    found = _LIST.search(text)
    offset = 2 if found and len(found[2]) > len(found[1]) else 0
    yaml.indent(mapping=2, sequence=2 + offset, offset=offset)
    return yaml


def _dumped(yaml: YAML, document: Any) -> str:
    written = io.StringIO()
    yaml.dump(document, written)
    return written.getvalue()


def _merged(text: str, before: str, after: str) -> str:
    """Apply the changes from `before` to `after` to `text`, of which `before` is a rewritten
    copy."""
    lines, old, new = (lines_of(one) for one in (text, before, after))
    if len(lines) == len(old):
        changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        for _, i1, i2, j1, j2 in reversed(changes):
            if old[i1:i2] != new[j1:j2]:
                lines[i1:i2] = new[j1:j2]
        return "".join(lines)
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name, part) for part in ("ours", "before", "after")]
        for file, content in zip(files, (text, before, after), strict=True):
            file.write_text(content, encoding="utf-8")
        done = subprocess.run([*MERGE, *files], capture_output=True, check=True, timeout=30)
    return done.stdout.decode()


def _do(document: Any, operation: Operation) -> None:
    if isinstance(operation, SetField):
        _set(document, operation)
    elif isinstance(operation, AddNode):
        nodes = _scope(document, operation.scope)
        if not nodes:
            nodes.fa.set_block_style()  # `graph: []` would get all nodes on its line
        nodes.insert(_behind(nodes, operation.after, len(nodes)), _block(operation.node))
    elif isinstance(operation, RenameNode):
        _rename(document, operation)
    elif isinstance(operation, Wire | Unwire):
        _wire(document, operation)
    elif isinstance(operation, Remove | Move):
        _take(document, operation)


def _set(document: Any, operation: SetField) -> None:
    holder, names = _field(document, operation.path)
    for name in names[:-1]:
        if not isinstance(holder.get(name), dict):
            holder[name] = {}
        holder = holder[name]
    holder[names[-1]] = _block(operation.value)


def _take(document: Any, operation: Remove | Move) -> None:
    """Remove a field or a node, or move a node."""
    if isinstance(operation, Remove) and "." in operation.path:
        _unset(document, operation.path)
        return
    nodes, node = _node(document, operation.path)
    nodes.pop(nodes.index(node))
    if isinstance(operation, Move):
        nodes.insert(_behind(nodes, operation.after, 0), node)


def _wire(document: Any, operation: Wire | Unwire) -> None:
    origin, to = operation.origin, operation.to
    node = None if to == OUTPUTS else _node(document, to)[1]
    try:
        if isinstance(operation, Wire):
            wire(document, node, origin, operation.output, to, operation.into)
        else:
            unwire(document, node, origin, to)
    except WireRefused as error:
        raise NotEdited(str(error)) from error


def _rename(document: Any, operation: RenameNode) -> None:
    _, node = _node(document, operation.path)
    outer, _, old = operation.path.rpartition("/")
    holder = _node(document, outer)[1] if outer else document
    rename = Rename(old, operation.to, tuple(outer.split("/")) if outer else ())
    rename.everywhere(document)
    rename.inside(holder)
    node["id"] = operation.to


def _unset(document: Any, path: str) -> None:
    holder, names = _field(document, path)
    for name in names[:-1]:
        holder = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or names[-1] not in holder:
        raise NotEdited(f"there is no field {path!r}")
    del holder[names[-1]]


def _field(document: Any, path: str) -> tuple[Any, list[str]]:
    head, dot, rest = path.partition(".")
    names = rest.split(".")
    if not dot or not all(names):
        raise NotEdited(f"{path!r} names no field: write `node.field`, or `.field`")
    return (_node(document, head)[1] if head else document), names


def _scope(document: Any, path: str) -> Any:
    holder = _node(document, path)[1] if path else document
    for key in SCOPES[:2]:
        if isinstance(holder.get(key), list):
            return holder[key]
    raise NotEdited(f"{path or 'the workflow'!r} has no `steps` and no `graph`")


def _behind(nodes: Any, after: str | None, otherwise: int) -> int:
    if after is None:
        return otherwise
    ids = [str(node.get("id")) if isinstance(node, dict) else "" for node in nodes]
    if after not in ids:
        raise NotEdited(f"there is no node {after!r} there")
    return ids.index(after) + 1


def _node(document: Any, path: str) -> tuple[Any, Any]:
    """Return a node by its path, and the list that contains it."""
    nodes, holder = None, document
    for name in path.split("/"):
        here = {str(node.get("id")): (nodes, node) for nodes, node in _nodes(holder, SCOPES[:2])}
        if name not in here:
            raise NotEdited(f"there is no node {path!r}")
        nodes, holder = here[name]
    return nodes, holder


def _nodes(holder: Any, keys: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """Yield the nodes of one scope, including `else` lists, each with the list that contains it."""
    for key in keys:
        nodes = holder.get(key)
        for node in nodes if isinstance(nodes, list) else []:
            if isinstance(node, dict):
                yield nodes, node
                yield from _nodes(node, SCOPES[2:])


def _block(value: Any) -> Any:
    """Texts of several lines are written as such."""
    if isinstance(value, dict):
        return {key: _block(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_block(inner) for inner in value]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
